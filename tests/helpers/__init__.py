"""Code shared by several tests: pipelines, operators without a pipeline, operators for tests, images."""
