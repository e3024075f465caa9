# SPDX-License-Identifier: Apache-2.0
"""Memory of PyTorch programs: the allocator's own account, and bytes by layer and expert."""
