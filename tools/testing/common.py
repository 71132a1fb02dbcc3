# SPDX-License-Identifier: GPL-2.0-only
"""What the programs of the test tools share on the host: places, the cache, and
how commands are run.
"""

import importlib.machinery
import importlib.util
import os
import signal
import subprocess

TESTING = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(TESTING))
VM = os.path.join(TESTING, "vm")
TESTS = os.path.join(TESTING, "selftests")
BENCH = os.path.join(TESTING, "bench")
RUN = os.path.join(VM, "run")
# What make tells the programs that it starts, and is not for another make
MAKE_WORDS = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")


def forget_make():
    """What another make was told is not for those that are started here."""
    for name in MAKE_WORDS:
        os.environ.pop(name, None)


def long_options(argv, options, switches):
    """
    Words of a command line as make is told them: KEY=VALUE becomes the option
    of that key, if it has a value, and KEY=1 the switch.
    """
    out = []
    for word in argv:
        key, equals, value = word.partition("=")
        if equals and key in options:
            out += [options[key], value] if value else []
        elif equals and key in switches:
            out += [switches[key]] if value not in ("", "0", "n") else []
        else:
            out.append(word)
    return out


def start(argv, **kwargs):
    """
    Start a command in a session of its own, whose output is read line by line,
    with errors in it.
    """
    return subprocess.Popen(argv, **{    # pylint: disable=consider-using-with
        "cwd": ROOT, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT, "text": True, "errors": "replace",
        "start_new_session": True, **kwargs})


def end(proc, number=signal.SIGTERM):
    """A signal to a command that start() started, and to what it started."""
    try:
        os.killpg(proc.pid, number)
    except ProcessLookupError:
        pass


def output(*argv, check=True, **kwargs):
    """What a command prints; nothing if it fails and @check is not set."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=check,
                          **{"cwd": ROOT, **kwargs})
    return "" if done.returncode else done.stdout.strip()


def load_program(path):
    """A program, whose name need not end with .py, as a module."""
    name = os.path.basename(path).replace("-", "_").removesuffix(".py")
    loader = importlib.machinery.SourceFileLoader(name, path)
    module = importlib.util.module_from_spec(
        importlib.util.spec_from_loader(name, loader))
    loader.exec_module(module)
    return module


def cache_dir(*parts):
    """A directory below the cache, made if need be."""
    path = os.path.join(output(os.path.join(VM, "cache")), *parts)
    os.makedirs(path, exist_ok=True)
    return path


def kernels(word, series):
    """What tools/testing/vm/kernels says of a kernel."""
    return output(os.path.join(VM, "kernels"), word, series)


def built(series, *names):
    """A file that the build made for a kernel."""
    return os.path.join(ROOT, "build", kernels("version", series), *names)
