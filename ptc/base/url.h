#pragma once
// Addresses of files on servers. Pure functions.

#include <string>
#include <string_view>

namespace scalai {

bool is_http(std::string_view location);  // or https

// The path as it stands in an address: all but letters, digits, "/", "-", "_", "." and "~" as %XX (RFC 3986, section
// 2).
std::string percent_encoded(std::string_view path);

// The other way; what is no %XX stays.
std::string percent_decoded(std::string_view text);

// The file of this name in a folder: "FOLDER/NAME", in which an http or https address has the name encoded, so that
// "a#1" and "a%31" are names and nothing else. Addresses of s3 are encoded later, as a whole.
std::string location_in(std::string_view folder, std::string_view name);

}  // namespace scalai
