# An image for executors and drivers on Kubernetes: Spark, this package and what executors import.
#   docker build --build-arg SPARK_IMAGE=apache/spark:4.0.2-scala2.13-java17-python3-ubuntu --build-arg LOCK=spark40.txt -t registry/replica-audit .
# The image's Python has to be the driver's minor version; the lock has to be of the image's minor of Spark (see .locks).
ARG SPARK_IMAGE
FROM ${SPARK_IMAGE}
ARG LOCK
USER root
WORKDIR /opt/replica-audit
COPY .locks .locks
COPY pyproject.toml LICENSE ./
COPY conf conf
COPY lib lib
COPY jobs jobs
# pyspark is the image's own: of the lock everything else is installed, with its hashes; Spark's Python goes on the path.
RUN python3 -c 'import re, sys; text = open(sys.argv[1]).read(); parts = re.split(r"\n(?=\S)", text); \
      open("/tmp/lock.txt", "w").write("\n".join(part for part in parts if not re.match(r"(pyspark|delta-spark)==", part)))' ".locks/${LOCK}" \
  && python3 -m pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: -r .locks/build.txt -r /tmp/lock.txt \
  && python3 -m pip install --no-cache-dir --no-deps --no-build-isolation --no-index . \
  && rm /tmp/lock.txt
USER spark
