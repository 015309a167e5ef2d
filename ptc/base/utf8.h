#pragma once
// UTF-8 text for terminals. Files and names of users may contain any bytes, so no text reaches the terminal raw:
// control characters would move the cursor, or make the terminal do what a file says, and a cut inside a character
// would leave invalid bytes. Any thread may call.

#include <string>
#include <string_view>
#include <vector>

namespace scalai {

// The characters (code points) of a text; an invalid byte is a character of its own. The views point into `text`.
std::vector<std::string_view> characters(std::string_view text);

// The printable form of one character: a blank for a tab, "?" for another control character or an invalid byte, else
// the character itself (a view of the argument). Not empty.
std::string_view printable(std::string_view character);

// The text with each character made printable.
std::string printable_text(std::string_view text);

// The text of a message: lines and tabs stay, other control characters and bytes that are no character are escaped:
// "\x1b".
std::string escaped(std::string_view text);

// Printable text of at most `columns` characters; a longer one is cut and ends in "…".
std::string clipped(std::string_view text, size_t columns);

// The same with the "…" in the middle: of names, beginnings and ends tell more.
std::string clipped_middle(std::string_view text, size_t columns);

// Printable text in lines of at most `columns` characters, broken at blanks and line ends; a longer word is broken
// where it must be. An empty text is one empty line. 0 columns: a single line.
std::vector<std::string> wrapped(std::string_view text, size_t columns);

// Columns on a terminal, one per character (wide and combining characters count like others).
size_t columns_of(std::string_view text);

}  // namespace scalai
