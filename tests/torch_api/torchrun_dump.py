"""A worker that writes down what it finds: environment, arguments, folder. Without torch.

``FAIL_ON=<rank>:<restart>,…`` makes these exit with 7 in that attempt, once all
have come so far.
"""

import json
import os
import sys
import time

rank, restart = os.environ.get("RANK"), os.environ.get("TORCHELASTIC_RESTART_COUNT")
found = {
    "env": dict(os.environ),
    "argv": sys.argv,
    "cwd": os.getcwd(),
    "unbuffered": sys.stdout.write_through,
}
with open(os.path.join(os.environ["DUMP_DIR"], f"{rank}.{restart}.json"), "w") as file:
    json.dump(found, file)
# Each in one call: `print` writes the line break by itself where nothing is buffered, and others
# may write to the same pipe between the two.
sys.stdout.write(f"out of {rank} apple\n")
sys.stderr.write(f"err of {rank} pear\n")
open(os.path.join(os.environ["DUMP_DIR"], f"{rank}.{restart}.done"), "w").close()
if f"{rank}:{restart}" in os.environ.get("FAIL_ON", "").split(","):
    others = [f"{n}.{restart}.done" for n in range(int(os.environ["WORLD_SIZE"]))]
    while not set(others) <= set(os.listdir(os.environ["DUMP_DIR"])):
        time.sleep(0.01)
    sys.exit(7)
