# SPDX-License-Identifier: Apache-2.0
"""Programs that `moescope bench` copies into an experiment's directory and runs there."""
