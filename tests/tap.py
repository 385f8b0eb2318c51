# SPDX-License-Identifier: Apache-2.0
"""The smallest producer of TAP: a case is a function that raises on failure.

    import tap

    def adds_up():
        tap.equal(1 + 1, 2)

    tap.run([adds_up, ("adds up again", adds_up)])
"""

import subprocess
import sys
import traceback


class Skip(Exception):
    """Raised by a case that cannot run here; its text says why."""


def equal(found, expected, what="value"):
    """Fails unless both are equal, and says how they differ."""
    if found != expected:
        raise AssertionError(f"{what}\nexpected: {expected!r}\n"
                             f"found:    {found!r}")


def output(command, **more):
    """What a command that must succeed prints on stdout."""
    done = subprocess.run([str(part) for part in command], text=True,
                          capture_output=True, check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"exit {done.returncode} of: "
                             f"{' '.join(map(str, command))}\n"
                             f"{done.stdout}{done.stderr}")
    return done.stdout


def _report(number, name, case):
    try:
        case()
    except Skip as why:
        print(f"ok {number} - {name} # SKIP {why}")
    except Exception as failure:  # pylint: disable=broad-except
        print(f"not ok {number} - {name}")
        text = str(failure)
        if not isinstance(failure, AssertionError):
            text = traceback.format_exc()
        for line in text.splitlines():
            print(f"# {line}")
        return False
    else:
        print(f"ok {number} - {name}")
    return True


def run(cases):
    """Runs functions, or (name, function) pairs, and ends the program."""
    print(f"1..{len(cases)}", flush=True)
    good = True
    for number, case in enumerate(cases, 1):
        name, body = case if isinstance(case, tuple) else (
            case.__name__.replace("_", " "), case)
        good = _report(number, name, body) and good
        sys.stdout.flush()
    sys.exit(0 if good else 1)
