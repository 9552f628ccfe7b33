"""The KRaft metadata log `__cluster_metadata-0`: who led each partition when, who was in sync, and the configs."""
