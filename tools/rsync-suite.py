#!/usr/bin/env python3
"""Runs rsync's own tests against deltic under the name rsync: rsync-suite.py SRC [TEST...]

SRC is a directory with the sources of rsync 3.5 or newer; rsync is built there first, for the programs that its tests
use. Without SRC this says SKIPPED and succeeds. The binary is target/release/deltic, or the one that DELTIC names.

Counted are the tests that run rsync on one machine or through a remote shell. Left out are tests of rsync's daemon and
its protocol, of rrsync, and of functions inside rsync. The set "hardening" has the tests with an attacker or with
damaged input; the set "core" has the others. Fails if a test fails that docs/options.md does not list with its reason.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent.parent
# Words in the text of a test that runs a daemon, or speaks rsync's protocol.
DAEMON = ('USE_TCP', 'require_tcp', 'start_test_daemon', 'start_rsyncd', 'claim_ports', 'claim_free_port',
          'setup_chroot_inner', 'stdio_daemon', 'rsync_proto', 'DaemonClient', 'rsync://', '--daemon', 'rsyncd')
# Words in the text of a test that runs rsync itself, and not only parts of rsync.
RUNS = re.compile(r'rsync_argv|run_rsync|checkit|checkdiff|expect_fail|\bRSYNC\b|mutatefns')
# Parts of the names of tests with an attacker or with damaged input.
HARDENING = re.compile(r'symlink|race|operator-path|leak|escape|injection|quoting|scanner|protected|unsafe|recursion|'
                       r'echo|overflow|clamp|anchor|rejected|control-chars|ki\d|newline|unpinnable')
SECTION = '## rsync\'s own tests'


def tests(source):
    """Returns the names of the tests of each set."""
    sets = {'core': [], 'hardening': []}
    for path in sorted((source / 'testsuite').glob('*_test.py')):
        text, name = path.read_text(), path.name.removesuffix('_test.py')
        if name.startswith('rrsync') or any(word in text for word in DAEMON) or not RUNS.search(text):
            continue
        sets['hardening' if HARDENING.search(name) else 'core'].append(name)
    return sets


def explained():
    """Returns the names of the tests that docs/options.md says cannot pass."""
    section = (HERE / 'docs/options.md').read_text().partition(SECTION)[2].partition('\n## ')[0]
    return set(re.findall(r'^\| `([\w-]+)` \|', section, re.M))


def build(source):
    """Builds rsync and the programs of its tests, unless they are built."""
    if not (source / 'tls').exists():
        commands = ['./configure --disable-md2man --with-included-popt', 'make -j2', 'make check-progs']
        subprocess.run(' && '.join(commands), shell=True, check=True, cwd=source, stdout=subprocess.DEVNULL)


def run(source, names):
    """Runs the tests of these names; returns the output."""
    binary = os.environ.get('DELTIC', HERE / 'target/release/deltic')
    with tempfile.TemporaryDirectory() as dir:
        os.chmod(dir, 0o755)
        link = pathlib.Path(dir) / 'rsync'
        link.symlink_to(pathlib.Path(binary).resolve(strict=True))
        words = [sys.executable, 'runtests.py', '--rsync-bin', link, '-j', '2', *names]
        return subprocess.run(words, cwd=source, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def main():
    source = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 and sys.argv[1] else '/nonexistent')
    if not (source / 'runtests.py').exists():
        print('SKIPPED: tests of rsync: name a directory with its sources: rsync-suite.py SRC', file=sys.stderr)
        return 0
    build(source)
    sets, asked = tests(source), sys.argv[2:]
    names = [name for names in sets.values() for name in names if not asked or name in asked]
    output = run(source, names)
    results = {name: result for result, name in re.findall(r'^(PASS|FAIL|ERROR|SKIP|XFAIL) +([\w-]+)', output, re.M)}
    unexplained = []
    for set_name, members in sets.items():
        by = {'passed': [], 'failed': [], 'skipped': []}
        for name in (name for name in members if name in names):
            result = results.get(name, 'ERROR')
            by['passed' if result == 'PASS' else 'skipped' if result == 'SKIP' else 'failed'].append(name)
        count = len(by['passed']) + len(by['failed'])
        print(f"{set_name}: {len(by['passed'])} of {count} pass, {len(by['skipped'])} are skipped")
        for how, members_of in by.items():
            print(f"  {how}: {' '.join(members_of) or '-'}")
        unexplained += [name for name in by['failed'] if name not in explained()]
    for name in unexplained:
        _, _, log = output.partition(f'----- {name} log follows')
        print(f'--- {name}\n' + log.partition(f'----- {name} log ends')[0].strip())
    return 1 if unexplained else 0


sys.exit(main())
