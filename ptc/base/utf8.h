#pragma once
// UTF-8 text as a terminal shows it. Users' files and names may hold anything, so nothing reaches the terminal raw:
// control characters would move the cursor, and cutting inside a character would leave broken bytes.

#include <string>
#include <string_view>
#include <vector>

namespace scalai {

// The characters (code points) of a text; a byte that is not valid UTF-8 is a character of its own.
std::vector<std::string_view> characters(std::string_view text);

// What to print for one character: a blank for a tab, "?" for another control character or a broken byte, else itself.
std::string_view printable(std::string_view character);

// A whole text, each character made printable.
std::string printable_text(std::string_view text);

// Printable text of at most `columns` characters; a longer one is cut and ends in "…".
std::string clipped(std::string_view text, size_t columns);

// Columns on a terminal, one a character (wide and combining characters are not told apart).
size_t columns_of(std::string_view text);

}  // namespace scalai
