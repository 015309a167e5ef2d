#pragma once
// Objects of S3 and what speaks like it (MinIO, Ceph, …): "s3://BUCKET/KEY" as an https address, and what signs
// requests for it. Endpoint and credentials come from the environment, under the names that Amazon's tools use; without
// credentials requests are not signed, which public buckets allow.

#include <string>

namespace scalai::vfs {

struct S3Access {
  std::string endpoint;       // AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; empty: Amazon's of the region
  std::string region;         // AWS_REGION, AWS_DEFAULT_REGION; us-east-1
  std::string key, secret;    // AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY; empty: not signed
  std::string session_token;  // AWS_SESSION_TOKEN; may be empty
  static S3Access of_environment();
};

bool is_s3(const std::string& location);  // "s3://…"
// The address: ENDPOINT/BUCKET/KEY, or https://BUCKET.s3.REGION.amazonaws.com/KEY. Bytes of the key that addresses do
// not take are written as %XX, as signatures need it.
std::string s3_address(const std::string& location, const S3Access& access);

}  // namespace scalai::vfs
