// Whatever the file, compressed or not: read_idx gives as many values as the shape says, or refuses it.
#include <zlib.h>

#include "fuzz.hpp"
#include "idx_file.hpp"

namespace {

using namespace cohort;

/// As gzip would, so that changes reach what lies below the checksum.
std::string compressed(const std::string& bytes) {
  z_stream stream{};
  constexpr int kGzip = 16 + MAX_WBITS;
  fuzz::require(deflateInit2(&stream, 6, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) == Z_OK, "zlib does not start");
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace

int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const uint8_t way = input.byte();
  const int dimensions = way % 2 == 0 ? 3 : 1;
  std::string bytes = way & 2 ? compressed(input.rest()) : input.rest();
  bytes.resize(bytes.size() - std::min<std::size_t>(bytes.size(), way >> 2));
  const fuzz::InputFile file(bytes);
  IdxArray array;
  if (!fuzz::accepts<UserError>([&] { array = read_idx(file.path(), dimensions); })) return 0;
  uint64_t values = 1;
  for (const int64_t extent : array.shape) values *= static_cast<uint64_t>(extent);
  fuzz::require(array.shape.size() == static_cast<std::size_t>(dimensions) && array.values.size() == values,
                "the values do not fill the shape");
  return 0;
}
