# One target a folder, with exact dependencies, so that a wrong include does not link.

# scalai_library(NAME ptc_tensor SRCS box.cpp … DEPS ptc_base … PRIVATE_DEPS fmt::fmt …)
function(scalai_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${ARG_NAME} STATIC ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PUBLIC ${ARG_DEPS} PRIVATE ${ARG_PRIVATE_DEPS} scalai_flags)
  target_include_directories(${ARG_NAME} PUBLIC "${CMAKE_SOURCE_DIR}")
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

# scalai_executable(NAME scalai SRCS … DEPS …)
function(scalai_executable)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} scalai_flags)
endfunction()

# scalai_test(NAME ptc_tensor_test SRCS box_test.cpp … DEPS ptc_tensor … [LABELS …])
# One executable a folder; ctest runs it as one test with the source folder as working directory.
function(scalai_test)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main scalai_flags)
  # Half of a full build are tests, which run for seconds: a third less to compile them.
  target_compile_options(${ARG_NAME} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
  target_compile_definitions(${ARG_NAME} PRIVATE SCALAI_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                             SCALAI_BINARY_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  set_tests_properties(${ARG_NAME} PROPERTIES TIMEOUT 600 LABELS "${ARG_LABELS}")
  if("gpu" IN_LIST ARG_LABELS)  # all were skipped, none failed
    set_tests_properties(${ARG_NAME} PROPERTIES SKIP_REGULAR_EXPRESSION "PASSED  . 0 tests.[\n]+.  SKIPPED ")
  endif()
endfunction()
