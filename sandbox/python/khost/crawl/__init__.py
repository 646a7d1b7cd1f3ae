"""Operators of torch and modules of transformers, found and tried."""
