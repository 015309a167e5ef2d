# Language level, build type, warnings, compiler cache and where binaries land.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(BUILD_TESTING "Build the tests" ON)
option(SCALAI_WERROR "Treat warnings as errors (.ci/run sets it)" OFF)
option(SCALAI_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)
set(SCALAI_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")
option(SCALAI_COVERAGE "Instrument for gcov" OFF)

find_program(SCALAI_CCACHE ccache)
if(SCALAI_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${SCALAI_CCACHE}")
endif()

add_library(scalai_flags INTERFACE)
set(_cxx "$<COMPILE_LANGUAGE:CXX>")  # nvcc has warnings of its own: scalai_cuda_library
target_compile_options(scalai_flags INTERFACE
  $<${_cxx}:-Wall> $<${_cxx}:-Wextra> $<${_cxx}:-Wpedantic> $<${_cxx}:-Wshadow> $<${_cxx}:-Wnon-virtual-dtor>
  $<${_cxx}:-Woverloaded-virtual>
  # Debian's absl is compiled as C++14 and its headers warn in newer modes.
  $<${_cxx}:-Wno-missing-field-initializers>
  # GCC 12 reports both in optimised code of std::variant and std::string that is right (GCC bugs 105562, 105651).
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-maybe-uninitialized> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-restrict>
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
