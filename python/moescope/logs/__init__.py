# SPDX-License-Identifier: Apache-2.0
"""Figures of steps and layers in TensorBoard, Weights & Biases and MLflow."""
