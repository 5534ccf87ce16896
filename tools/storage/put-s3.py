"""Puts a file into a bucket of $AWS_ENDPOINT_URL in parts of 8 MiB with CRC-32C: put-s3.py BUCKET KEY FILE."""
import sys

import boto3

bucket, key, path = sys.argv[1:4]
s3 = boto3.client("s3")
try:
    s3.create_bucket(Bucket=bucket)
except s3.exceptions.BucketAlreadyOwnedByYou:
    pass
of = {"Bucket": bucket, "Key": key}
upload = s3.create_multipart_upload(**of, ChecksumAlgorithm="CRC32C")["UploadId"]
parts = []
with open(path, "rb") as file:
    while data := file.read(8 << 20):
        no = len(parts) + 1
        put = s3.upload_part(
            **of, UploadId=upload, PartNumber=no, Body=data, ChecksumAlgorithm="CRC32C"
        )
        parts.append({"PartNumber": no, "ETag": put["ETag"], "ChecksumCRC32C": put["ChecksumCRC32C"]})
s3.complete_multipart_upload(**of, UploadId=upload, MultipartUpload={"Parts": parts})
