"""Prints the rows of a Parquet file as JSON lines. Ends with 3 where pyarrow is missing, also in the folder that is named
behind the file."""

import json
import sys

sys.path += sys.argv[2:3]
try:
    import pyarrow.parquet as parquet
except ImportError:
    sys.exit(3)

for batch in parquet.ParquetFile(sys.argv[1]).iter_batches():
    for row in batch.to_pylist():
        print(json.dumps(row, default=str))
