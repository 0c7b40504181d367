"""What several tests use: pipelines, operators without a pipeline, operators for tests, images."""
