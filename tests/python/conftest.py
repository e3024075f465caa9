# SPDX-License-Identifier: Apache-2.0
"""Tests that share helpers find them beside themselves."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def pytest_addoption(parser):
    parser.addoption("--lines", action="store_true", help="end with 'ok', 'FAIL' or 'skip' and each test")


def pytest_terminal_summary(terminalreporter):
    """A line for every test, as all of our test programs have; tools/run_tests.py counts them."""
    if not terminalreporter.config.getoption("--lines"):
        return
    for outcome, word in (("passed", "ok"), ("skipped", "skip"), ("failed", "FAIL"), ("error", "FAIL")):
        for report in terminalreporter.getreports(outcome):
            name = report.nodeid.split("::", 1)[-1].replace("\n", " ")
            why = f": {report.longrepr[2][:200]}" if outcome == "skipped" else ""
            terminalreporter.write_line(f"{word} {name}{why}")


def pytest_sessionfinish(session, exitstatus):
    """A file that is skipped as a whole has said why; it has not failed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if exitstatus == 5 and reporter.getreports("skipped"):
        session.exitstatus = 0
