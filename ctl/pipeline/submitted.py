"""What spark-submit runs as the driver of a job: `portico pipeline`, whose Spark is there already."""

import os
import sys

from pipeline.spark_at import SUBMITTED

if __name__ == "__main__":
    del sys.path[0]  # this folder, whose modules are nobody's packages
    from ctl.main import main

    os.environ["PORTICO_SPARK_MASTER"] = SUBMITTED
    sys.argv = ["portico", "pipeline", *sys.argv[1:]]
    main()
