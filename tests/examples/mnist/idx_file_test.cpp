#include "idx_file.hpp"

#include <gmock/gmock.h>
#include <zlib.h>

#include <cohort/host/error.hpp>

#include "error_text.hpp"
#include "temporary_folder.hpp"

namespace {

using cohort::testing::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string word(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string images(uint32_t count, size_t bytes) {
  return word(0x803) + word(count) + word(2) + word(3) + std::string(bytes, '\7');
}

std::filesystem::path write_compressed(const TemporaryFolder& folder, const std::string& name,
                                       const std::string& content) {
  const auto path = folder.path() / name;
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  return path;
}

std::string reading_fails(const std::filesystem::path& path, int dimensions = 3) {
  return error_text<cohort::UserError>([&] { read_idx(path, dimensions); });
}

TEST(IdxFile, ReadsPlainAndCompressedFilesAlike) {
  const TemporaryFolder folder;
  for (const auto& path : {folder.write("plain", images(2, 12)), write_compressed(folder, "small.gz", images(2, 12))}) {
    const IdxArray array = read_idx(path, 3);
    EXPECT_THAT(array.shape, ElementsAre(2, 2, 3));
    EXPECT_EQ(array.values, std::vector<uint8_t>(12, 7));
  }
}

TEST(IdxFile, ReadsAnEmptyArray) {
  const TemporaryFolder folder;
  EXPECT_TRUE(read_idx(folder.write("none", images(0, 0)), 3).values.empty());
}

TEST(IdxFile, NamesAFileThatIsMissing) {
  EXPECT_THAT(reading_fails("/nowhere/labels.gz"), HasSubstr("/nowhere/labels.gz"));
}

TEST(IdxFile, RefusesAFileWithAnotherMagicNumber) {
  const TemporaryFolder folder;
  EXPECT_THAT(reading_fails(folder.write("labels", word(0x801) + word(1) + "a")),
              HasSubstr("magic number is 2049, not 2051"));
}

TEST(IdxFile, RefusesAFileThatEndsEarlyAnywhere) {
  const TemporaryFolder folder;
  const std::string whole = images(2, 12);
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_THAT(reading_fails(folder.write("cut", whole.substr(0, length))), HasSubstr("too early")) << length;
  }
}

TEST(IdxFile, RefusesAFileThatIsLongerThanItsHeaderSays) {
  const TemporaryFolder folder;
  EXPECT_THAT(reading_fails(folder.write("long", images(2, 13))), HasSubstr("longer than its header"));
}

TEST(IdxFile, RefusesSizesThatOverflow) {
  const TemporaryFolder folder;
  const auto path = folder.write("huge", word(0x803) + word(0xffffffff) + word(0xffffffff) + word(0xffffffff));
  EXPECT_THAT(reading_fails(path), HasSubstr("more than 4 GiB"));
}

TEST(IdxFile, ALieInTheHeaderCostsNoMemory) {
  const TemporaryFolder folder;
  EXPECT_THAT(reading_fails(folder.write("lie", word(0x801) + word(0xfffffff0) + "abc"), 1), HasSubstr("too early"));
}

TEST(IdxFile, RefusesCompressedFilesThatAreCutOrDamaged) {
  const TemporaryFolder folder;
  write_compressed(folder, "whole.gz", images(100, 600));
  std::string bytes = folder.read("whole.gz");
  EXPECT_NE(reading_fails(folder.write("cut.gz", bytes.substr(0, bytes.size() - 6))), "");
  bytes[bytes.size() - 6] = static_cast<char>(bytes[bytes.size() - 6] ^ 0x55);  // the checksum
  EXPECT_NE(reading_fails(folder.write("damaged.gz", bytes)), "");
}

}  // namespace
