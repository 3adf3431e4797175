#!/bin/sh
# tools/torch_python.sh: prints the path of a Python that has PyTorch: $PYTHON, python3 or /usr/bin/python3. Says what to do where
# none has, and prints nothing.
for p in "${PYTHON:-}" python3 /usr/bin/python3; do
	if [ -n "$p" ] && "$p" -c 'import torch' 2>/dev/null; then
		command -v "$p"
		exit
	fi
done
echo "no Python here has PyTorch, gotrain is measured alone: apt-get install python3-torch" >&2
