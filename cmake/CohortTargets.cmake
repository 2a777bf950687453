# One function for each kind of target, so that every library, program and test is built alike.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Kind of build" FORCE)
endif()

# The cache serves every checkout (paths count relative to the source folder) and programs with precompiled headers.
find_program(COHORT_CCACHE ccache)
if(COHORT_CCACHE)
  set(cohort_launcher ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
    CCACHE_SLOPPINESS=pch_defines,time_macros ${COHORT_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${cohort_launcher})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${cohort_launcher})
endif()
find_package(Threads REQUIRED)

# Everything that runs lies as it will lie when installed: bin/, lib/, lib/cohort/plugins/.
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(COHORT_PLUGIN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/cohort/plugins)

# An installation can be moved: what is installed finds our libraries, and the LibTorch that `cohort libtorch` brings, from where it
# lies itself. This is for programs; libraries and plugins have their own.
file(RELATIVE_PATH cohort_bin_to_lib /${CMAKE_INSTALL_BINDIR} /${CMAKE_INSTALL_LIBDIR})
set(CMAKE_INSTALL_RPATH $ORIGIN/${cohort_bin_to_lib} $ORIGIN/${cohort_bin_to_lib}/cohort/libtorch/lib)

# What is installed without a word about it belongs to the package `cohort`; `development` is cohort-dev.
set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME runtime)

# Warnings and sanitizers of our own targets; never passed on to users, who build without them.
function(cohort_own_flags target)
  # A fifth less to compile than with -O3. What computes is LibTorch, or a loop over elements in a source that asks for -O3.
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:-O1>)
  if(COHORT_DEVELOPER)
    target_compile_options(${target} PRIVATE
      $<$<COMPILE_LANGUAGE:C,CXX>:-Werror;-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wsign-conversion>
      $<$<COMPILE_LANGUAGE:CXX>:-Wold-style-cast;-Woverloaded-virtual>
      # The code that nvcc makes for the host compiler is neither pedantic nor free of old casts.
      $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings
        -Xcompiler=-Werror,-Wall,-Wextra,-Wshadow,-Wconversion,-Wsign-conversion,-Woverloaded-virtual>
      # GCC 12 reports std::string's operator+ at -O3 without reason (GCC bug 105651).
      $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  endif()
  if(COHORT_SANITIZE)
    # GCC reports what may be uninitialized without reason in code that it instruments.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=${COHORT_SANITIZE}
      -fno-sanitize-recover=all -fno-omit-frame-pointer>
      $<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)
    target_link_options(${target} PRIVATE -fsanitize=${COHORT_SANITIZE})
  endif()
endfunction()

# cohort_hide_paths(TARGET): messages of what is installed name files as they lie in our tree, or in LibTorch's include folder, and not
# where the machine has them that built it.
function(cohort_hide_paths target)
  set(folders ${PROJECT_SOURCE_DIR}/)
  if(cohort_torch_root)
    list(APPEND folders ${cohort_torch_root}/include/)
  endif()
  foreach(folder IN LISTS folders)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:C,CXX>:-fmacro-prefix-map=${folder}=>)
  endforeach()
endfunction()

# cohort_library(NAME [STATIC] EXPORT set [PUBLIC libs...] [PRIVATE libs...]): a shared library (or an archive) from ./src, public headers in
# ./include, and headers for the other libraries of the runtime, which are not installed, in ./internal.
function(cohort_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STATIC" "EXPORT" "PUBLIC;PRIVATE")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/src/*.cpp)
  set(kind SHARED)
  if(arg_STATIC)
    set(kind STATIC)
  endif()
  add_library(${name} ${kind} ${sources})
  target_include_directories(${name} PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}> PRIVATE src)
  foreach(folder include internal)
    if(IS_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
      target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/${folder}>)
    endif()
  endforeach()
  target_link_libraries(${name} PUBLIC ${arg_PUBLIC} PRIVATE ${arg_PRIVATE})
  target_compile_features(${name} PUBLIC cxx_std_20)
  string(REGEX REPLACE "^cohort_" "" short_name ${name})
  add_library(cohort::${short_name} ALIAS ${name})
  set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    EXPORT_NAME ${short_name} INSTALL_RPATH "$ORIGIN;$ORIGIN/cohort/libtorch/lib")
  cohort_own_flags(${name})
  cohort_hide_paths(${name})
  install(TARGETS ${name} EXPORT ${arg_EXPORT} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT development
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(DIRECTORY include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development OPTIONAL)
endfunction()

# cohort_compile_together(TARGET [SEES_MODULE patterns...]): many files of it are compiled as one, because each would parse the same
# headers again. Those that match a pattern see torch::nn::Module or all of LibTorch's operators, which takes longer to parse
# than everything else that a batch includes: they share batches of their own. tests/tidy keeps these headers out of the others.
# Sources that include JSON stand together, so that few batches parse it.
function(cohort_compile_together target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SEES_MODULE")
  list(JOIN arg_SEES_MODULE "|" sees_module)
  get_target_property(sources ${target} SOURCES)
  set(slow)
  set(json)
  set(fast)
  foreach(source IN LISTS sources)
    if(sees_module AND source MATCHES "^(.*/src/)?(${sees_module})")
      list(APPEND slow ${source})
      continue()
    endif()
    file(STRINGS ${source} includes_json LIMIT_COUNT 1 REGEX "#include .*json")
    if(includes_json)
      list(APPEND json ${source})
    else()
      list(APPEND fast ${source})
    endif()
  endforeach()
  cohort_batches(slow 16 ${slow})
  cohort_batches(fast 38 ${json} ${fast})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

# cohort_batches(NAME SIZE sources...): divides the sources into the least number of batches of at most that size, all about equal.
function(cohort_batches name size)
  list(LENGTH ARGN count)
  math(EXPR batches "(${count} + ${size} - 1) / ${size}")
  set(place 0)
  foreach(source IN LISTS ARGN)
    math(EXPR batch "${place} * ${batches} / ${count}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${name}_${batch})
    math(EXPR place "${place} + 1")
  endforeach()
endfunction()

# cohort_program(NAME SOURCES files... LINK libs...): an executable in bin/.
function(cohort_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LINK")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
  cohort_own_flags(${name})
  cohort_hide_paths(${name})
endfunction()
