# cohort_precompile(TARGET): compiles the headers of cohort and LibTorch once, so that a changed file of the target is compiled in
# half of the time or less. Later targets of the project reuse what the first one has compiled; a target with compile options of
# its own is better served by target_precompile_headers.
function(cohort_precompile target)
  get_target_property(type ${target} TYPE)
  set(property cohort_precompiled_${type})  # code of a program and of a library is not compiled alike
  get_property(first GLOBAL PROPERTY ${property})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE <cohort/cohort.hpp>)
    set_property(GLOBAL PROPERTY ${property} ${target})
  endif()
endfunction()
