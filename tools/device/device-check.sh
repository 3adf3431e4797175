#!/bin/sh
# device-check.sh [REPORT]: checks gotrain on this machine's NVIDIA GPU within 8 minutes, and writes what it found to REPORT
# (device-report.md). It needs an NVIDIA driver, and no more; where python3 has PyTorch, that is measured beside.
# GOTRAIN_CHECK_DEVICE=emulator runs all of it without a GPU, at sizes that an emulator can do, to try the script.
# Exit status: 0 when all checks have passed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
report=${1:-device-report.md}
device=${GOTRAIN_CHECK_DEVICE:-cuda}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
start=$(date +%s)
limit=${GOTRAIN_CHECK_SECONDS:-470}
failures=0

left() { echo $((limit - ($(date +%s) - start))); }
say() { echo "device-check: $*" >&2; }
write() { printf '%s\n' "$@" >>"$report"; }

tar -C "$work" -xzf "$here/root.tar.gz" || { say "cannot unpack $here/root.tar.gz"; exit 1; }

# run NAME...: with the machine's C library where that is new enough, else with the one that came along.
if LD_LIBRARY_PATH=$work/lib "$work/gotrain" version >/dev/null 2>&1; then
	run() { LD_LIBRARY_PATH=$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"; }
	libc="this machine's"
else
	run() {
		"$work/lib/glibc/ld-linux-x86-64.so.2" --library-path "$work/lib/glibc:$work/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$@"
	}
	libc="the one that came along"
fi
export GOTRAIN_TEST_DEVICE="$device"

# limited SECONDS COMMAND...: what is left of the time, at most so many seconds.
limited() {
	seconds=$1
	shift
	now=$(left)
	[ "$now" -lt "$seconds" ] && seconds=$now
	[ "$seconds" -lt 5 ] && { echo "not run: the time was up"; return 124; }
	(
		run "$@" &
		pid=$!
		(sleep "$seconds" && kill "$pid" 2>/dev/null) >/dev/null 2>&1 &
		watch=$!
		wait "$pid"
		status=$?
		kill "$watch" 2>/dev/null
		exit $status
	)
}

# check TITLE SECONDS COMMAND...: runs it, and writes whether it has passed, and the end of what it said where it has not.
check() {
	title=$1 seconds=$2
	shift 2
	say "$title"
	begin=$(date +%s)
	(cd "$work/tests" && limited "$seconds" "$@") >"$work/out" 2>&1
	status=$?
	took=$(($(date +%s) - begin))
	if [ $status = 0 ]; then
		passed=$(grep -c '^ *--- PASS' "$work/out")
		skipped=$(grep -c '^ *--- SKIP' "$work/out")
		write "| $title | passed ($passed tests, $skipped skipped) | $took s |"
	else
		failures=$((failures + 1))
		write "| $title | **failed** (status $status) | $took s |"
		{
			printf '\n### %s\n\n```\n' "$title"
			grep -E '^ *--- FAIL|^ *[a-z_]+\.go:|panic:|not run' "$work/out" | head -40
			printf '...\n'
			tail -15 "$work/out"
			printf '```\n'
		} >>"$work/failures"
	fi
}

: >"$report"
write "# gotrain on a GPU" "" "Written by device-check.sh on $(date -u +%Y-%m-%d)." ""
write '```'
run "$work/gotrain" version >>"$report" 2>&1
[ "$device" = cuda ] && run "$work/gotrain" doctor 2>&1 | grep -E '^(CUDA|cuDNN|NCCL|cores)' >>"$report"
command -v nvidia-smi >/dev/null &&
	nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,pcie.link.gen.max --format=csv >>"$report" 2>&1
write "device: $device; C library: $libc" '```' ""

write "## Against the reference" "" "| what | result | time |" "| --- | --- | ---: |"
# What wants the sources or a compiler, or is about the emulator, stays out.
aside='Committed|Emulator|Forgotten|NCCL|LostWorker'
check "every kernel" 120 "$work/tests/cuda-kernels.test" -test.v -test.timeout 120s -test.skip "$aside"
check "the executor, one and several workers" 120 "$work/tests/cuda.test" -test.v -test.timeout 120s -test.skip "$aside"
check "golden training steps" 60 "$work/tests/pipeline.test" -test.v -test.run 'TestGolden/.*/cuda' -test.timeout 60s
[ ! -s "$work/failures" ] || cat "$work/failures" >>"$report"

# train NAME ARGUMENTS...: one line of the table: the losses of the epochs, the test's error, the rate of the last epoch.
train() {
	name=$1
	shift
	say "training: $name"
	(cd "$work" && limited 60 "$work/gotrain" -config quickstart "device=$device" "outputDir=$work/runs" "name=$(echo "$name" | tr -c 'a-z0-9\n' _)" "$@") \
		>"$work/out" 2>"$work/log"
	status=$?
	if [ $status = 0 ]; then
		losses=$(sed -n 's/^Finished Epoch.*loss = \([0-9.]*\) .*/\1/p' "$work/out" | tr '\n' ' ')
		rates=$(sed -n 's/^Finished Epoch.*(\([0-9.]*\) samples per second).*/\1/p' "$work/out")
		error=$(sed -n 's/^Finished Evaluation.*metric = \([0-9.]*%\).*/\1/p' "$work/out")
		write "| $name | $losses | $error | $(echo "$rates" | head -1) | $(echo "$rates" | tail -1) |"
	else
		failures=$((failures + 1))
		write "| $name | **failed** (status $status): $(tail -1 "$work/log") | | | |"
	fi
}

size="network.depth=20 learner.maxEpochs=4 learner.minibatchSize=128"
[ "$device" = emulator ] && size="learner.maxEpochs=1 learner.epochSize=32 learner.minibatchSize=16 command=[train]"
write "" "## Training on the embedded pictures" "" \
	"| run | loss by epoch | test error | samples/s, first epoch | last epoch |" "| --- | --- | ---: | ---: | ---: |"
# shellcheck disable=SC2086
{
	train "1 worker float32" $size
	[ "$device" = emulator ] || train "1 worker tf32" $size precision=tf32
	train "1 worker bfloat16" $size precision=bfloat16
	train "4 workers dense" $size distributed.workers=4
	train "4 workers 1 bit" $size distributed.workers=4 distributed.bits=1
	train "1 worker 1 bit" $size distributed.bits=1
}

write "" "## Speed of ResNet-20's step, 3x32x32 pictures, samples/s" ""
pytorch=
if [ "$device" = cuda ] && command -v python3 >/dev/null &&
	python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1; then
	pytorch="eager compiled graphs"
	write "PyTorch $(python3 -c 'import torch; print(torch.__version__)'), channels last, bare steps on one minibatch." ""
fi
batches="128 1024"
times=2s # of a benchmark
[ "$device" = emulator ] && batches=2 times=1x
write "| precision | minibatch | gotrain |$(for m in $pytorch; do printf ' PyTorch %s |' "$m"; done)"
write "| --- | ---: | ---: |$(for m in $pytorch; do printf ' ---: |'; done)"
for precision in float32 tf32 bfloat16; do
	for batch in $batches; do
		say "speed: $precision, minibatch $batch"
		(cd "$work/tests" && limited 40 "$work/tests/cuda.test" -test.run '^$' -test.bench "Step/$precision/$batch\$" -test.benchtime "$times") >"$work/out" 2>&1
		line="| $precision | $batch | $(awk '{for (i = 2; i <= NF; i++) if ($i == "samples/s") print $(i - 1)}' "$work/out") |"
		for mode in $pytorch; do
			if [ "$(left)" -gt 20 ]; then
				rate=$(timeout 60 python3 "$work/torch_step.py" "$precision" "$mode" "$batch" 2 2>"$work/log" | tail -1)
				line="$line ${rate:-failed: $(tail -1 "$work/log")} |"
			else
				line="$line not run |"
			fi
		done
		write "$line"
	done
done

for precision in float32 bfloat16; do
	for batch in $batches; do
		write "" "Where the time of a step goes, $precision, minibatch $batch, launch by launch:" "" '```'
		(cd "$work/tests" && limited 30 "$work/tests/cuda.test" -test.run '^$' -test.bench "Operations/$precision/$batch\$" -test.benchtime "$times") 2>&1 |
			grep 'µs' >>"$report"
		write '```'
	done
done

write "" "Would 1 bit pay for 4 workers on this card? (gotrain profile, ResNet-20, minibatch 128)" "" '```'
size="network.depth=20 learner.minibatchSize=128"
[ "$device" = emulator ] && size="learner.minibatchSize=4"
# shellcheck disable=SC2086
(cd "$work" && limited 40 "$work/gotrain" profile quickstart "device=$device" distributed.workers=4 $size) >>"$report" 2>&1
write '```' "" "$failures checks failed; $(($(date +%s) - start)) s."
say "$failures checks failed: see $report"
[ $failures = 0 ]
