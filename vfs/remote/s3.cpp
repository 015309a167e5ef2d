#include "vfs/remote/s3.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

#include "ptc/base/url.h"

namespace scalai::vfs {
namespace {

constexpr std::string_view kScheme = "s3://";

std::string environment(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (const char* const value = std::getenv(name); value != nullptr && *value != '\0') return value;
  }
  return "";
}

}  // namespace

S3Access S3Access::of_environment() {
  S3Access access{.endpoint = environment({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}),
                  .region = environment({"AWS_REGION", "AWS_DEFAULT_REGION"}),
                  .key = environment({"AWS_ACCESS_KEY_ID"}),
                  .secret = environment({"AWS_SECRET_ACCESS_KEY"}),
                  .session_token = environment({"AWS_SESSION_TOKEN"})};
  while (access.endpoint.ends_with('/')) access.endpoint.pop_back();
  if (access.region.empty()) access.region = "us-east-1";
  return access;
}

bool is_s3(const std::string& location) { return location.starts_with(kScheme); }

std::string s3_address(const std::string& location, const S3Access& access) {
  const std::string_view rest = std::string_view(location).substr(kScheme.size());
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string_view bucket = rest.substr(0, slash);
  const std::string key = percent_encoded(rest.substr(slash));
  if (!access.endpoint.empty()) return fmt::format("{}/{}{}", access.endpoint, bucket, key);
  return fmt::format("https://{}.s3.{}.amazonaws.com{}", bucket, access.region, key);
}

}  // namespace scalai::vfs
