# SPDX-License-Identifier: Apache-2.0
"""The shape of torch.profiler over moescope's run: profile, schedule, record_function."""
