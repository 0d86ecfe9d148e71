"""What-if: how edits change a model's scores, accuracy, kernels and SQNRs."""
