# LibTorch as two imported libraries: torch_cpu and c10 only, so that a machine without CUDA needs none of it.
# (`find_package(Torch)` takes seconds, turns CUDA on and links everything.)

# cohort_find_libtorch(ROOT VERSION FOLDER): sets ROOT to the folder with lib and include of the LibTorch in FOLDER, which is FOLDER
# or its folder torch, and VERSION to its version; ROOT to nothing where there is none.
function(cohort_find_libtorch root version folder)
  set(${root} "" PARENT_SCOPE)
  foreach(place ${folder}/torch ${folder})
    if(EXISTS ${place}/lib/libtorch_cpu.so AND EXISTS ${place}/include/torch/headeronly/version.h)
      file(STRINGS ${place}/include/torch/headeronly/version.h parts REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
      list(TRANSFORM parts REPLACE "[^0-9]*([0-9]+).*" "\\1")
      list(JOIN parts "." found)
      set(${root} ${place} PARENT_SCOPE)
      set(${version} ${found} PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# cohort_add_libtorch(ROOT): the target cohort::libtorch, and cohort::libtorch_cuda for a program that uses CUDA before cohort opens
# LibTorch's library for it, where LibTorch has one.
function(cohort_add_libtorch root)
  add_library(cohort::libtorch INTERFACE IMPORTED GLOBAL)
  target_include_directories(cohort::libtorch SYSTEM INTERFACE ${root}/include ${root}/include/torch/csrc/api/include)
  target_link_libraries(cohort::libtorch INTERFACE ${root}/lib/libtorch_cpu.so ${root}/lib/libc10.so)
  if(EXISTS ${root}/lib/libtorch_cuda.so)
    # Programs refer to none of its symbols. The libraries that it needs are found when the program starts.
    add_library(cohort::libtorch_cuda INTERFACE IMPORTED GLOBAL)
    target_link_libraries(cohort::libtorch_cuda INTERFACE cohort::libtorch
      -Wl,--push-state,--no-as-needed,${root}/lib/libtorch_cuda.so,--pop-state)
    target_link_options(cohort::libtorch_cuda INTERFACE -Wl,--allow-shlib-undefined)
  endif()
endfunction()
