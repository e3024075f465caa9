# SPDX-License-Identifier: Apache-2.0
"""profile in the training loops of others: Hugging Face Trainer, Lightning, Accelerate."""
