#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the files in .github against their schemas: GitHub silently drops a form that it cannot
read, and a mistake in a workflow shows only when it runs."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# schema: files
FORMS = {
    "github-workflows": ["workflows/*.yml"],
    "github-issue-forms": ["ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/feature.yml"],
    "github-issue-config": ["ISSUE_TEMPLATE/config.yml"],
}


def main():
    folder = pathlib.Path(subprocess.run([ROOT / "tools" / "python_env.sh", "lint"], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])
    github = ROOT / ".github"
    checked = set()
    status = 0
    for schema, patterns in FORMS.items():
        files = [path for pattern in patterns for path in sorted(github.glob(pattern))]
        checked.update(files)
        done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema",
                               f"vendor.{schema}", *files], check=False,
                              env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin"})
        status = status or done.returncode
    for path in sorted(set(github.rglob("*.yml")) - checked):
        print(f"{path.relative_to(ROOT)}: no schema is named for it in tools/check_github.py")
        status = 1
    sys.exit(status)


main()
