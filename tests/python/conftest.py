# SPDX-License-Identifier: Apache-2.0
"""Tests that share helpers find them beside themselves."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
