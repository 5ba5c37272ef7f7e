#!/bin/sh
# A cache of keys whose first 1,024 positions are dropped: the rest is moved back in one go, not turned anew.
set -e
python3 - <<'PYTHON'
import numpy as np
np.save("k.npy", np.random.default_rng(0).standard_normal((1, 8, 4096, 128)).astype(np.float32))
PYTHON
pecli apply rope k.npy --model llama-3.1-8b -o cache.npy
python3 -c 'import numpy as np; np.save("kept.npy", np.load("cache.npy")[:, :, 1024:])'
pecli apply rope kept.npy --model llama-3.1-8b --shift -1024 -o moved.npy
# The same keys, turned where they stand now, differ by no more than the roundings.
python3 - <<'PYTHON'
import numpy as np
np.save("late.npy", np.load("k.npy")[:, :, 1024:])
PYTHON
pecli apply rope late.npy --model llama-3.1-8b -o direct.npy
python3 -c 'import numpy as np; print("largest difference", np.abs(np.load("moved.npy") - np.load("direct.npy")).max())'
