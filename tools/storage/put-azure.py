"""Uploads a file to a container, in blocks of 1 MiB with their SHA-256 as ids: put-azure.py CONTAINER KEY FILE."""
import hashlib
import os
import sys

from azure.core.exceptions import ResourceExistsError
from azure.storage.blob import BlobBlock, BlobServiceClient

container, key, path = sys.argv[1:4]
service = BlobServiceClient.from_connection_string(os.environ["AZURE_STORAGE_CONNECTION_STRING"])
client = service.get_container_client(container)
try:
    client.create_container()
except ResourceExistsError:
    pass
blob, blocks = client.get_blob_client(key), []
with open(path, "rb") as file:
    while data := file.read(1 << 20):
        name = hashlib.sha256(data).hexdigest()
        blob.stage_block(name, data)
        blocks.append(BlobBlock(name))
blob.commit_block_list(blocks)
