"""Writes reference runs of quantization to 2, 4, 8 and 16 bits with error feedback, with NumPy in float64.

    python3 make_levels.py .        writes levels_2, levels_4, levels_8 and bfloat16.safetensors

One file: one worker quantizes `columns` columns of `rows` values, T times.
  gradient [T, columns, rows] float32
  decoded  [T, columns, rows] float32   what the message says
  residual [columns, rows] float32      after the last step
Rule per column, with v = gradient + residual: for N = 2^bits levels, step = sqrt(pi/2) mean|v| times the step of the uniform
quantizer of N levels that is optimal for a Gaussian of deviation 1 (Max 1960, table II; Hui and Neuhoff 2001), decoded =
(q + 1/2) step with q = floor(v / step) clipped to [-N/2, N/2 - 1]; a column of zeros decodes to zeros. For 16 bits decoded is v
rounded to 8 significant bits, ties to even. residual = v - decoded.

float32 may take the other code where v lies on the edge of two. A seed is taken whose values all keep away from the edges.
Compare values within 1e-5 of the largest |v| that their column has seen.
"""
import json
import struct
import sys

import numpy as np

STEP = {2: 0.9957, 4: 0.3352, 8: 0.03076}


def quantize(v, bits):
    """Returns the decoded values, and how far the nearest value is from an edge, in steps."""
    if bits == 16:
        mantissa, exponent = np.frexp(v)
        scaled = mantissa * 256
        return np.ldexp(np.rint(scaled) / 256, exponent), np.abs(scaled - np.floor(scaled) - 0.5).min()
    n = 2**bits
    step = np.abs(v).mean(-1, keepdims=True) * np.sqrt(np.pi / 2) * STEP[bits]
    x = v / np.where(step > 0, step, 1)
    inside = (step > 0) & (np.abs(x) < n / 2 - 0.5)
    margin = np.abs(x - np.rint(x))[inside].min()
    return (np.clip(np.floor(x), -n // 2, n // 2 - 1) + 0.5) * step, margin


def make(bits, seed, columns=9, rows=75, steps=4):
    rng = np.random.default_rng(seed)
    shape = (steps, columns, rows)
    g = (rng.standard_normal(shape) * np.exp(rng.standard_normal((1, columns, 1)))).astype(np.float32)
    g[:, 0] = 0                         # zeros
    g[:, 1] = np.abs(g[:, 1])           # of one sign
    g[:, 2] *= 1e-30                    # small
    g[-1, 3, 5] = 1e3                   # an outlier, clipped
    r, decoded, margin = np.zeros(shape[1:]), [], 1.0
    for t in range(steps):
        v = g[t].astype(np.float64) + r
        d, m = quantize(v, bits)
        r, margin = v - d, min(margin, m)
        decoded.append(d)
    return dict(gradient=g, decoded=np.array(decoded, np.float32), residual=r.astype(np.float32)), margin


def save(path, tensors, metadata):
    head, blobs, at = {"__metadata__": {k: str(v) for k, v in metadata.items()}}, [], 0
    for name in sorted(tensors):
        a = np.ascontiguousarray(tensors[name])
        head[name] = {"dtype": "F32", "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        blobs.append(a.tobytes())
        at += a.nbytes
    text = json.dumps(head, sort_keys=True).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


if __name__ == "__main__":
    for bits in (2, 4, 8, 16):
        for seed in range(1000):
            tensors, margin = make(bits, seed)
            if margin > 1e-4:
                break
        else:
            sys.exit(f"{bits} bits: no seed keeps away from the edges")
        name = "bfloat16" if bits == 16 else f"levels_{bits}"
        save(f"{sys.argv[1]}/{name}.safetensors", tensors, dict(bits=bits, seed=seed))
