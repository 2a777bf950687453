#include "environment/driver.hpp"

#include <cstdlib>
#include <initializer_list>

namespace cohort::mpi {

bool has_driver() {
  for (const char* const variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    if (const char* const value = std::getenv(variable); value && *value) return true;
  }
  return false;
}

std::string folder_of_windows() {
  const char* const folder = std::getenv("OMPI_MCA_osc_sm_backing_directory");
  return folder && *folder ? folder : "/dev/shm";
}

}  // namespace cohort::mpi
