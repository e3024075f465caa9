# SPDX-License-Identifier: Apache-2.0
"""profile in other frameworks' training loops: Hugging Face Trainer, Lightning, Accelerate."""
