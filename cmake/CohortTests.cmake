# How tests are built and entered into ctest.
#
# Tests are compiled in the tree of the product, which is what users run. Their own code is compiled for a short build: -O1,
# precompiled headers. tests/only_all.txt says which entries, or parts of entries, only `tests/run.sh --all` runs (label only_all);
# everything else has the label quick. tests/timing.txt says which depend on time (label timing).

foreach(list only_all timing)
  set(file ${PROJECT_SOURCE_DIR}/tests/${list}.txt)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} cohort_${list} REGEX "^[^# ]")
  list(TRANSFORM cohort_${list} REPLACE "  .*" "")  # without the reasons
endforeach()

# cohort_precompiled_headers(NAME headers... [LINK libs...]): a program that does nothing, whose precompiled headers others reuse.
function(cohort_precompiled_headers name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LINK")
  set(source ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  file(CONFIGURE OUTPUT ${source} CONTENT "int main() {}\n")
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${arg_LINK} Threads::Threads)
  target_precompile_headers(${name} PRIVATE ${arg_UNPARSED_ARGUMENTS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  cohort_test_flags(${name})
endfunction()

# cohort_test_flags(TARGET [PCH name]): flags of code that only tests run.
function(cohort_test_flags target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PCH" "")
  cohort_own_flags(${target})
  target_compile_options(${target} PRIVATE -O1 -g0)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)  # lets ccache see into them
  endif()
  if(arg_PCH)
    target_precompile_headers(${target} REUSE_FROM ${arg_PCH})
    target_compile_definitions(${target} PRIVATE GTEST_HAS_PTHREAD=1)  # as the precompiled headers have it
  endif()
endfunction()

# cohort_test_program(NAME SOURCES files... [LINK libs...] [PCH name]): a program in tests/ that tests start.
function(cohort_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PCH" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  cohort_test_code(${name} LINK ${arg_LINK} PCH ${arg_PCH})
endfunction()

# cohort_test_objects(NAME SOURCES files... [LINK libs...] [PCH name]): what several programs of tests link, compiled once.
function(cohort_test_objects name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PCH" "SOURCES;LINK")
  add_library(${name} OBJECT ${arg_SOURCES})
  # Programs are compiled with -fPIE, and precompiled headers serve only code that is compiled with the same flags.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE)
  cohort_test_code(${name} LINK ${arg_LINK} PCH ${arg_PCH})
endfunction()

# cohort_test_code(TARGET [LINK libs...] [PCH name]): libraries and flags of what cohort_test_program() and cohort_test_objects() add.
function(cohort_test_code target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PCH" "LINK")
  target_link_libraries(${target} PUBLIC ${arg_LINK})
  cohort_compile_together(${target} SEES_MODULE .*)
  if(arg_PCH)
    cohort_test_flags(${target} PCH ${arg_PCH})
  else()
    cohort_test_flags(${target})
  endif()
endfunction()

# cohort_test(NAME SOURCES files... LINK libs... [LABELS labels...] [TIMEOUT seconds] [PROCESSORS n] [LOCKS names...]): a GoogleTest
# program.
function(cohort_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT;PROCESSORS" "SOURCES;LINK;LABELS;LOCKS")
  set(pch gtest_headers)
  if("${arg_LINK}" MATCHES "cohort_runtime|cohort_trainer|cohort::libtorch")
    set(pch torch_headers)
  endif()
  cohort_test_program(${name} SOURCES ${arg_SOURCES} LINK ${arg_LINK} GTest::gmock_main PCH ${pch})
  cohort_add_test(${name} COMMAND ${name} LABELS ${arg_LABELS} TIMEOUT ${arg_TIMEOUT} PROCESSORS ${arg_PROCESSORS}
    LOCKS ${arg_LOCKS})
endfunction()

# cohort_add_test(NAME COMMAND words... [FILTER pattern] [PYTHON] [LABELS labels...] [TIMEOUT seconds] [PROCESSORS n] [COST seconds]
# [LOCKS names...] [ENVIRONMENT variables...]): an entry of ctest in the tier that tests/only_all.txt gives it; two entries, NAME
# and NAME_all, where that file names parts of it. FILTER: the entry is these tests of a GoogleTest program. PYTHON: the program
# takes --tier instead of --gtest_filter. COST: ctest starts the entry before cheaper ones; others by the times of earlier runs.
function(cohort_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "PYTHON" "FILTER;TIMEOUT;PROCESSORS;COST" "COMMAND;LABELS;LOCKS;ENVIRONMENT")
  set(parts)
  set(tier quick)
  foreach(line IN LISTS cohort_only_all)
    string(REGEX MATCH "^([^:]+):?(.*)$" _ "${line}")
    set(part "${CMAKE_MATCH_2}")
    string(REPLACE "*" ".*" pattern "${CMAKE_MATCH_1}")
    if(NOT name MATCHES "^${pattern}$")
      continue()
    endif()
    set_property(GLOBAL APPEND PROPERTY cohort_lines_used "${line}")
    if(part)
      list(APPEND parts ${part})
    else()
      set(tier only_all)
    endif()
  endforeach()
  set(quick_arguments)
  if(arg_PYTHON)
    set(quick_arguments --tier=quick)
    set(all_arguments --tier=all)
  elseif(parts OR arg_FILTER)
    # GoogleTest heeds the last of several filters alone: what the entry leaves out and what its tier does go into one.
    string(REGEX REPLACE "-.*$" "" chosen "${arg_FILTER}")
    string(REGEX MATCH "-.*$" left_out "${arg_FILTER}")
    string(REPLACE "-" "" left_out "${left_out}")
    list(JOIN parts ":" filter)
    set(all_arguments "--gtest_filter=${filter}-${left_out}")
    list(APPEND left_out ${parts})
    list(JOIN left_out ":" left_out)
    set(quick_arguments "--gtest_filter=${chosen}-${left_out}")
  endif()
  if(parts)
    cohort_ctest_entry(${name}_all only_all ${arg_COMMAND} ${all_arguments})
  elseif(tier STREQUAL "only_all" AND arg_PYTHON)
    set(quick_arguments --tier=every)
  endif()
  cohort_ctest_entry(${name} ${tier} ${arg_COMMAND} ${quick_arguments})
endfunction()

# The entry itself; takes labels and limits from the caller's arg_ variables.
function(cohort_ctest_entry name tier)
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)  # It only catches a hang, also on a machine with several times the work that it can do.
  endif()
  if(NOT arg_PROCESSORS)
    set(arg_PROCESSORS 1)
  endif()
  if(COHORT_SANITIZE)
    math(EXPR arg_TIMEOUT "5 * ${arg_TIMEOUT}")  # programs with a sanitizer are slower
  endif()
  foreach(line IN LISTS cohort_timing)
    string(REPLACE "*" ".*" pattern "${line}")
    if(name MATCHES "^${pattern}$")
      set_property(GLOBAL APPEND PROPERTY cohort_lines_used "${line}")
      list(APPEND arg_LABELS timing)
    endif()
  endforeach()
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS};${tier}" PROCESSORS ${arg_PROCESSORS}
    RESOURCE_LOCK "${arg_LOCKS}" ENVIRONMENT "${arg_ENVIRONMENT}")
  if(arg_COST)
    set_property(TEST ${name} PROPERTY COST ${arg_COST})
  endif()
endfunction()

# cohort_check_lists(): stops where tests/only_all.txt or tests/timing.txt names an entry that does not exist. Those of CUDA's
# kernels are there with a CUDA compiler only.
function(cohort_check_lists)
  get_property(used GLOBAL PROPERTY cohort_lines_used)
  foreach(line IN LISTS cohort_only_all cohort_timing)
    if(NOT line IN_LIST used AND (cohort_has_cuda OR NOT line MATCHES "^cuda_"))
      message(FATAL_ERROR "tests/only_all.txt or tests/timing.txt has the line '${line}', which names no entry of ctest")
    endif()
  endforeach()
endfunction()

# cohort_leave_out_of_all(FOLDER TARGET): every library and program below the folder that `all` would build is built by TARGET
# instead.
function(cohort_leave_out_of_all folder target)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(entry IN LISTS targets)
    get_target_property(type ${entry} TYPE)
    get_target_property(is_left_out ${entry} EXCLUDE_FROM_ALL)
    if(NOT type MATCHES "INTERFACE_LIBRARY|UTILITY" AND NOT is_left_out)
      set_target_properties(${entry} PROPERTIES EXCLUDE_FROM_ALL ON)
      add_dependencies(${target} ${entry})
    endif()
  endforeach()
  get_property(folders DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(entry IN LISTS folders)
    cohort_leave_out_of_all(${entry} ${target})
  endforeach()
endfunction()
