"""Prints the rows of a Parquet file as JSON lines. Ends with 3 where pyarrow is missing, also in the folder that is named
behind the file."""

import json
import math
import sys

sys.path += sys.argv[2:3]
try:
    import pyarrow.parquet as parquet
except ImportError:
    sys.exit(3)


def plain(value):
    """JSON has no NaN, no infinities and no bytes."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


for batch in parquet.ParquetFile(sys.argv[1]).iter_batches():
    for row in batch.to_pylist():
        print(json.dumps(plain(row), default=str, allow_nan=False))
