"""An endpoint that speaks Tencent Cloud's API 3.0 for CKafka, over the use cases of the REST API."""
