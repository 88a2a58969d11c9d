"""Makes a bucket unless it exists.

Usage, with region and credentials in AWS_*: python -m localcluster.bucket ENDPOINT NAME
"""

from __future__ import annotations

import os
import sys

import boto3
from botocore.config import Config


def main(endpoint: str, name: str) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=os.environ["AWS_REGION"],
        config=Config(s3={"addressing_style": "path"}, proxies={}),
    )
    if name not in {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}:
        client.create_bucket(Bucket=name)


if __name__ == "__main__":
    main(*sys.argv[1:])
