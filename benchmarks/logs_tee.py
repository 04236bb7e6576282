"""How much does it cost to echo the workers' output?

Eight writers (``--writers``) each write 50 MB (``--megabytes``) of 100-byte lines to their own
log files; a console in this process echoes them, prefixed, into a pipe that another process
reads. Reported are wall time from the first line to the reader's end of file, and the CPU time
of this process, which is the agent's part. The reader's and the writers' own CPU time is
reported apart; the writers alone, with nobody following, are the floor.

``--style line`` writes every line with its own call, as an unbuffered worker does; ``block``
writes 64 KiB at a time. ``--check`` makes the reader look at every line: whole, from one writer,
in order, none lost and none doubled. It costs the reader more than the console costs.

Usage: python benchmarks/logs_tee.py [--style line|block] [--check] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from elastic_fsm.logs import Console, open_log

LINE_BYTES = 100

WRITER = """
import os, sys
writer, count, style = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
sys.stdin.read(1)  # all begin together, after the interpreter's start
pad = b"x" * (LINE_BYTES - 12)
lines = (b"%02d %08d" % (writer, n) + pad + b"\\n" for n in range(count))
if style == "line":
    for line in lines:
        os.write(1, line)
else:
    with open(1, "wb", buffering=65536, closefd=False) as file:
        file.writelines(lines)
""".replace("LINE_BYTES", str(LINE_BYTES))

READER = """
import json, sys
check = sys.argv[1] == "check"
count, broken, last = 0, 0, {}
def look(line):
    writer, number = line[4:6], int(line[7:15])
    good = len(line) == 4 + LINE_BYTES and line[:4] == b"[" + line[5:6] + b"] "
    if not good or last.get(writer, -1) + 1 != number:
        return 1
    last[writer] = number
    return 0
if check:
    for line in sys.stdin.buffer:
        count += 1
        try:
            broken += look(line)
        except ValueError:
            broken += 1
else:
    while block := sys.stdin.buffer.raw.read(1 << 20):
        count += block.count(b"\\n")
json.dump({"lines": count, "broken": broken}, sys.stdout)
""".replace("LINE_BYTES", str(LINE_BYTES))


def main() -> None:
    """Run the rounds and print one line for each, and their medians."""
    options = parse()
    results = [run(options, follow=True) for _ in range(options.rounds)]
    floor = [run(options, follow=False) for _ in range(options.rounds)]
    for result in results:
        print(json.dumps(result))
    for name, rounds in (("followed", results), ("writers alone", floor)):
        wall, agent = median(rounds, "wall"), median(rounds, "agent")
        print(f"{name}: median wall {wall:.2f} s, agent CPU {agent:.2f} s")
    sys.exit(any(result["broken"] or result["lost"] for result in results))


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--style", choices=["line", "block"], default="block")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def run(options: argparse.Namespace, *, follow: bool) -> dict[str, float]:
    """One round; times in seconds, ``rss`` (the peak so far) in MiB."""
    count = options.megabytes * 1_000_000 // LINE_BYTES
    with tempfile.TemporaryDirectory() as folder:
        logs = [Path(folder, f"{writer}.log") for writer in range(options.writers)]
        writers = [start_writer(n, log, count, options.style) for n, log in enumerate(logs)]
        reader, console = start_console(check=options.check)
        cpu, start = agent_cpu(), time.monotonic()
        for number, log in enumerate(logs if follow else []):
            console.follow(log, stream="stdout", prefix=b"[%d] " % number)
        let_go_and_wait(writers)
        for log in logs:
            console.finish(log)
        console.close()
        used = agent_cpu() - cpu
        seen = json.loads(end_of(reader))
        wall = time.monotonic() - start
    lost = count * options.writers - seen["lines"] if follow else 0
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"wall": wall, "agent": used, "rss": rss, "broken": seen["broken"], "lost": lost}


def start_writer(number: int, log: Path, count: int, style: str) -> subprocess.Popen[bytes]:
    """Start a writer; it waits to be let go."""
    fd = open_log(log)
    command = [sys.executable, "-c", WRITER, str(number), str(count), style]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=fd)
    os.close(fd)
    return writer


def start_console(*, check: bool) -> tuple[subprocess.Popen[bytes], Console]:
    """Start the reader and a console that writes to it."""
    command = [sys.executable, "-c", READER, "check" if check else "count"]
    reader = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert reader.stdin is not None
    console = Console(out_fd=reader.stdin.fileno(), live_status=False)
    console.start()
    return reader, console


def let_go_and_wait(writers: list[subprocess.Popen[bytes]]) -> None:
    """Let all writers begin, and wait until they have ended."""
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    for writer in writers:
        writer.wait()


def end_of(reader: subprocess.Popen[bytes]) -> bytes:
    """Close the reader's input and return what it says."""
    output, _ = reader.communicate()
    return output


def agent_cpu() -> float:
    """CPU seconds of this process, without its children."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def median(results: list[dict[str, float]], key: str) -> float:
    """The median of one figure."""
    return statistics.median(result[key] for result in results)


if __name__ == "__main__":
    main()
