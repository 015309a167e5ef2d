# Language level, build type, warnings, compiler cache and where binaries land.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")  # -O3 takes a seventh longer to compile and runs no faster here

option(BUILD_TESTING "Build the tests" ON)
option(SCALAI_LABS "Build labs/, which show or judge an idea; nothing else needs them" ON)
option(SCALAI_WERROR "Treat warnings as errors (.ci/run sets it)" OFF)
option(SCALAI_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)
set(SCALAI_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")
option(SCALAI_COVERAGE "Instrument for gcov" OFF)

# Ten files as one unit, and precompiled headers: a full build takes less than half of the time. Tools that look at single
# files want a tree without (the preset lint).
option(SCALAI_UNITY "Compile several sources of a folder as one unit" ON)
option(SCALAI_PCH "Precompile headers" ON)

# ccache looks into precompiled headers only if it is told that their macros and times do not matter.
find_program(SCALAI_CCACHE ccache)
if(SCALAI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND};-E;env;CCACHE_SLOPPINESS=pch_defines,time_macros;${SCALAI_CCACHE}")
endif()

# Not CMAKE_POSITION_INDEPENDENT_CODE, which gives programs another flag than libraries: a precompiled header serves both.
add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fPIC>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The compiler collects its garbage only from 1 GiB on: a tenth of its time, for 100 MB more of memory.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>
                      "$<$<COMPILE_LANGUAGE:CXX>:SHELL:--param ggc-min-heapsize=1048576>")
endif()

add_library(scalai_flags INTERFACE)
set(_gnu "$<COMPILE_LANG_AND_ID:CXX,GNU>")
set(_cxx "$<COMPILE_LANGUAGE:CXX>")  # nvcc has warnings of its own: scalai_cuda_library
target_compile_options(scalai_flags INTERFACE
  $<${_cxx}:-Wall> $<${_cxx}:-Wextra> $<${_cxx}:-Wpedantic> $<${_cxx}:-Wshadow> $<${_cxx}:-Wnon-virtual-dtor>
  $<${_cxx}:-Woverloaded-virtual>
  # Debian's absl is compiled as C++14 and its headers warn in newer modes.
  $<${_cxx}:-Wno-missing-field-initializers>
  # GCC 12 to 14 report these in optimised code of std::variant, std::vector and std::string that is right (GCC bugs
  # 105562, 105651, 105329), and the last one where a unit includes the source of an anonymous namespace.
  $<${_gnu}:-Wno-maybe-uninitialized> $<${_gnu}:-Wno-restrict> $<${_gnu}:-Wno-stringop-overflow>
  $<${_gnu}:-Wno-array-bounds> $<${_gnu}:-Wno-subobject-linkage>
  $<$<AND:${_cxx},$<BOOL:${SCALAI_WERROR}>>:-Werror>)
target_include_directories(scalai_flags INTERFACE "${CMAKE_SOURCE_DIR}")
if(SCALAI_SANITIZE)
  add_compile_options($<${_cxx}:-fsanitize=${SCALAI_SANITIZE}> $<${_cxx}:-fno-omit-frame-pointer>
                      $<${_cxx}:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${SCALAI_SANITIZE})
endif()
if(SCALAI_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "SCALAI_FUZZERS needs clang (the preset fuzz chooses it), not ${CMAKE_CXX_COMPILER_ID}")
  endif()
  # Every object reports its coverage; only the fuzzers themselves get libFuzzer's main.
  add_compile_options($<${_cxx}:-fsanitize=fuzzer-no-link>)
  add_link_options(-fsanitize=fuzzer-no-link)
endif()
if(SCALAI_COVERAGE)
  add_compile_options($<${_cxx}:--coverage>)
  add_link_options(--coverage)
endif()
