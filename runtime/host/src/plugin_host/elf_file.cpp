#include "plugin_host/elf_file.hpp"

#include <elf.h>
#include <link.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <type_traits>

namespace cohort::host {
namespace {

using Header = ElfW(Ehdr);
using Segment = ElfW(Phdr);

// A struct at a place of the file; nothing where the file ends before.
template <class Struct>
std::optional<Struct> read_at(std::ifstream& file, uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<Struct>);
  Struct bytes;
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(reinterpret_cast<char*>(&bytes), sizeof(bytes))) return std::nullopt;
  return bytes;
}

bool fits(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

// The tables of segments and sections and the contents of all segments lie inside the file.
bool is_complete(std::ifstream& file, const Header& header, uint64_t size) {
  if (!fits(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize, size)) return false;
  if (header.e_phentsize != sizeof(Segment)) return false;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment = read_at<Segment>(file, header.e_phoff + uint64_t{i} * sizeof(Segment));
    if (!segment || !fits(segment->p_offset, segment->p_filesz, size)) return false;
  }
  return true;
}

bool is_for_same_machine(const Header& a, const Header& b) {
  return a.e_machine == b.e_machine && a.e_ident[EI_CLASS] == b.e_ident[EI_CLASS] &&
         a.e_ident[EI_DATA] == b.e_ident[EI_DATA];
}

}  // namespace

std::string elf_problem(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const auto magic = read_at<std::array<char, SELFMAG>>(file, 0);
  if (!magic || std::memcmp(magic->data(), ELFMAG, SELFMAG) != 0) {
    return "it is not an ELF shared library; build it with cohort_add_plugin()";
  }
  const auto header = read_at<Header>(file, 0);
  if (!header) return "it is cut short; copy or build it again";
  std::ifstream own_file("/proc/self/exe", std::ios::binary);
  const auto own = read_at<Header>(own_file, 0);
  if (own && !is_for_same_machine(*header, *own)) {
    return "it was built for another machine (ELF machine " + std::to_string(header->e_machine) + ", this one is " +
           std::to_string(own->e_machine) + "); build it on this kind of machine";
  }
  if (header->e_type != ET_DYN) return "it is an ELF file but no shared library; build it with cohort_add_plugin()";
  if (!is_complete(file, *header, std::filesystem::file_size(path))) return "it is cut short; copy or build it again";
  return "";
}

}  // namespace cohort::host
