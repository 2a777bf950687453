#include "window.hpp"

#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "environment/driver.hpp"

namespace cohort::mpi {

namespace {

constexpr uint64_t kOwnOfMpi = 1 << 20;  // bytes in the same folder, for its own use
constexpr int kPopulateForWriting = 23;  // MADV_POPULATE_WRITE, of Linux 5.14

uint64_t page_size() {
  return static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t round_up_to_page(uint64_t nbytes) {
  return (nbytes + page_size() - 1) / page_size() * page_size();
}

/// Of MPI, for a part that begins on a page: Open MPI 4.1 puts its own words before the first.
uint64_t asked_for(uint64_t nbytes) {
  return round_up_to_page(nbytes) + page_size();
}

std::byte* first_page_in(void* memory) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  return static_cast<std::byte*>(memory) + (round_up_to_page(address) - address);
}

}  // namespace

int find_one_machine(MPI_Comm comm, bool& is_one) {
  MPI_Comm near = MPI_COMM_NULL;
  int code = ::MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &near);
  if (code != MPI_SUCCESS) return code;
  int all = 0, here = 0;
  ::MPI_Comm_size(comm, &all);
  ::MPI_Comm_size(near, &here);
  is_one = here == all;
  return ::MPI_Comm_free(&near);
}

bool has_room_for_window(uint64_t nbytes, int ranks) {
  struct statvfs folder {};
  const std::string path = folder_of_windows();
  if (::access(path.c_str(), W_OK) != 0 || ::statvfs(path.c_str(), &folder) != 0) return false;
  const uint64_t room = uint64_t{folder.f_bavail} * folder.f_frsize;
  const uint64_t each = room > kOwnOfMpi ? (room - kOwnOfMpi) / static_cast<uint64_t>(ranks) : 0;
  return nbytes <= each && asked_for(nbytes) <= each;
}

int make_window(MPI_Comm comm, uint64_t nbytes, Window& window) {
  MPI_Info info = MPI_INFO_NULL;
  ::MPI_Info_create(&info);
  ::MPI_Info_set(info, "alloc_shared_noncontig", "true");
  void* own = nullptr;
  const auto size = static_cast<MPI_Aint>(asked_for(nbytes));
  int code = ::MPI_Win_allocate_shared(size, 1, info, comm, &own, &window.handle);
  ::MPI_Info_free(&info);
  if (code != MPI_SUCCESS) return code;
  ::MPI_Win_set_errhandler(window.handle, MPI_ERRORS_RETURN);
  window.nbytes = round_up_to_page(nbytes);
  int ranks = 0;
  ::MPI_Comm_size(comm, &ranks);
  for (int rank = 0; rank < ranks && code == MPI_SUCCESS; ++rank) {
    MPI_Aint length = 0;
    int unit = 0;
    void* part = nullptr;
    code = ::MPI_Win_shared_query(window.handle, rank, &length, &unit, &part);
    window.parts.push_back(first_page_in(part));
  }
  return code;
}

bool fill_with_zeros(std::byte* part, uint64_t nbytes) {
  // A kernel before 5.14 does not know this and would fault in the next line.
  if (::madvise(part, nbytes, kPopulateForWriting) != 0 && errno != EINVAL) return false;
  std::memset(part, 0, nbytes);
  return true;
}

void give_back(std::byte* part, uint64_t nbytes) {
  static_cast<void>(::madvise(part, nbytes, MADV_REMOVE));  // else it is given back with the window
}

}  // namespace cohort::mpi
