# One target a folder, with exact dependencies, so that a wrong include does not link.

# How sources of a kind are optimised in release builds. Half of a full build are tests, which run for seconds, and most
# of the rest only reads, decides and prints: two fifths less to compile them.
set(SCALAI_OPTIMISED_source "")
set(SCALAI_OPTIMISED_cold $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
set(SCALAI_OPTIMISED_test $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-Og>)

# Libraries of every target, so that one precompiled header fits all.
target_link_libraries(scalai_flags INTERFACE fmt::fmt absl::status absl::statusor Threads::Threads)
target_compile_options(scalai_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-pthread>)

# The precompiled headers: what most sources include anyway, and what tests do. No header of ours is among them, so that an
# edit of one does not compile everything anew. Everything that is compiled with the same flags shares them.
set(SCALAI_PCH_SOURCE
  <algorithm> <array> <cmath> <cstdint> <functional> <limits> <map> <memory> <numeric> <optional> <set> <span> <string>
  <string_view> <unordered_map> <utility> <variant> <vector>
  <absl/status/status.h> <absl/status/statusor.h> <fmt/format.h> <fmt/ranges.h>)
set(SCALAI_PCH_TEST
  ${SCALAI_PCH_SOURCE} <filesystem> <fstream> <gmock/gmock.h> <gtest/gtest.h> <random> <sstream> <thread>)
if(SCALAI_PCH)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/generated/pch.cpp" CONTENT "")  # a target has a source
  foreach(_kind source cold test)
    if(_kind STREQUAL test AND NOT BUILD_TESTING)
      continue()
    endif()
    add_library(scalai_pch_${_kind} OBJECT "${CMAKE_BINARY_DIR}/generated/pch.cpp")
    target_link_libraries(scalai_pch_${_kind} PRIVATE scalai_flags)
    target_compile_options(scalai_pch_${_kind} PRIVATE ${SCALAI_OPTIMISED_${_kind}})
    if(_kind STREQUAL test)
      target_link_libraries(scalai_pch_test PRIVATE GTest::gmock)
      target_precompile_headers(scalai_pch_test PRIVATE ${SCALAI_PCH_TEST})
    else()
      target_precompile_headers(scalai_pch_${_kind} PRIVATE ${SCALAI_PCH_SOURCE})
    endif()
  endforeach()
endif()

# scalai_compile(TARGET source|cold|test [BATCH 3] [ALONE x.cpp …]): how its sources become units: twenty files each, or BATCH.
# Those that are ALONE, because their libraries' macros disturb others, are units of their own.
function(scalai_compile target kind)
  cmake_parse_arguments(ARG "" "BATCH" "ALONE" ${ARGN})
  if(NOT ARG_BATCH)
    set(ARG_BATCH 20)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${SCALAI_UNITY} UNITY_BUILD_BATCH_SIZE ${ARG_BATCH})
  set_source_files_properties(${ARG_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_compile_options(${target} PRIVATE ${SCALAI_OPTIMISED_${kind}})
  if(SCALAI_PCH)
    target_precompile_headers(${target} REUSE_FROM scalai_pch_${kind})
  endif()
endfunction()

# scalai_library(NAME ptc_tensor SRCS box.cpp … DEPS ptc_base … PRIVATE_DEPS PkgConfig::XXHASH … [ALONE x.cpp …] [COLD]
#                [BATCH 3])
# COLD: reads, decides or prints; nobody waits for it.
function(scalai_library)
  cmake_parse_arguments(ARG "COLD" "NAME;BATCH" "SRCS;DEPS;PRIVATE_DEPS;ALONE" ${ARGN})
  add_library(${ARG_NAME} STATIC ${ARG_SRCS})
  if(ARG_COLD)
    scalai_compile(${ARG_NAME} cold BATCH ${ARG_BATCH} ALONE ${ARG_ALONE})
  else()
    scalai_compile(${ARG_NAME} source BATCH ${ARG_BATCH} ALONE ${ARG_ALONE})
  endif()
  target_link_libraries(${ARG_NAME}
    PUBLIC ${ARG_DEPS} fmt::fmt absl::status absl::statusor Threads::Threads
    PRIVATE ${ARG_PRIVATE_DEPS} $<BUILD_INTERFACE:scalai_flags>)
  target_include_directories(${ARG_NAME} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
endfunction()

# scalai_cuda_library(NAME scalai_exec_kernels SRCS kernels.cu … DEPS …); call it only with SCALAI_WITH_CUDA.
# No fused multiply-add: floating results are to be those of the host, bit by bit.
function(scalai_cuda_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_library(${ARG_NAME} STATIC ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PUBLIC ${ARG_DEPS} PRIVATE scalai_flags)
  target_include_directories(${ARG_NAME} PUBLIC "${CMAKE_SOURCE_DIR}")
  target_compile_options(${ARG_NAME} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr> $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Wno-missing-field-initializers>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${SCALAI_WERROR}>>:-Werror=all-warnings>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${SCALAI_WERROR}>>:-Xcompiler=-Werror>)
  # cuda_runtime_api.h for those who include the launchers' header.
  target_include_directories(${ARG_NAME} SYSTEM PUBLIC "${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}")
endfunction()

# scalai_executable(NAME scalai SRCS … DEPS … [ALONE x.cpp …])
function(scalai_executable)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS;ALONE" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  scalai_compile(${ARG_NAME} cold ALONE ${ARG_ALONE})  # programs parse, call libraries and print
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} scalai_flags)
endfunction()

# Seconds; sanitizers take their time.
set(SCALAI_TEST_TIMEOUT 600)
if(SCALAI_SANITIZE)
  set(SCALAI_TEST_TIMEOUT 6000)
endif()

# scalai_test(NAME ptc_tensor_test SRCS box_test.cpp … DEPS ptc_tensor … [LABELS …] [ALONE x_test.cpp …]
#             [SHARDS 3])
# One executable a folder; ctest runs it as one test with the source folder as working directory, or as so many tests,
# each a share of it, which run beside each other. Tests that `./dev soak` plays as a whole are the long ones: they begin
# first, so that nobody waits for the last of them alone.
function(scalai_test)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME;SHARDS" "SRCS;DEPS;LABELS;ALONE" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  scalai_compile(${ARG_NAME} test ALONE ${ARG_ALONE})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main scalai_flags)
  set(_cost 0)
  if("soak" IN_LIST ARG_LABELS)
    set(_cost 10)
  endif()
  target_compile_definitions(${ARG_NAME} PRIVATE SCALAI_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                             SCALAI_BINARY_DIR="${CMAKE_BINARY_DIR}")
  if(ARG_SHARDS)
    math(EXPR _last "${ARG_SHARDS} - 1")
    foreach(_shard RANGE ${_last})
      add_test(NAME ${ARG_NAME}_${_shard} COMMAND ${ARG_NAME} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
      set_tests_properties(${ARG_NAME}_${_shard} PROPERTIES TIMEOUT ${SCALAI_TEST_TIMEOUT} LABELS "${ARG_LABELS}" COST ${_cost}
                           ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${_shard}")
    endforeach()
    return()
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT ${SCALAI_TEST_TIMEOUT} LABELS "${ARG_LABELS}" COST ${_cost})
  if("gpu" IN_LIST ARG_LABELS)  # all were skipped, none failed
    set_tests_properties(${ARG_NAME} PROPERTIES SKIP_REGULAR_EXPRESSION "PASSED  . 0 tests.[\n]+.  SKIPPED ")
  endif()
endfunction()

# Rows of a C++ array of texts: `out` has {"NAME", R"text(…)text"}, for each FOLDER/NAME.textproto.
function(scalai_built_in_texts out folder)
  set(_rows "")
  foreach(_name ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${folder}/${_name}.textproto")
    file(READ "${folder}/${_name}.textproto" _text)
    string(APPEND _rows "    {\"${_name}\", R\"text(${_text})text\"},\n")
  endforeach()
  set(${out} "${_rows}" PARENT_SCOPE)
endfunction()
