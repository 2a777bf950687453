// Event files as bytes. tests/system/tensorboard_test.py reads them with TensorBoard's own reader.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include <cohort/host/error.hpp>
#include <cohort/host/machine.hpp>

#include "loggers/event_file.hpp"
#include "loggers/histogram.hpp"
#include "loggers/protobuf.hpp"
#include "temporary_folder.hpp"

namespace cohort {
namespace {

using testing::TemporaryFolder;

std::vector<std::string> names_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string own_name(const std::string& time) {
  return "events.out.tfevents." + time + "." + host::host_name() + "." + std::to_string(::getpid());
}

// CRC-32C (RFC 3720): each bit of the reflected polynomial in turn.
uint32_t naive_crc(std::string_view data) {
  uint32_t crc = 0xFFFFFFFF;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78 : 0);
  }
  return ~crc;
}

std::string masked(uint32_t crc) {
  const uint32_t value = (crc >> 15 | crc << 17) + 0xA282EAD8;
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

TEST(TfRecord, HasLengthAndChecksumsAroundTheEvent) {
  ASSERT_EQ(naive_crc("123456789"), 0xE3069283);  // the check value of the catalogue of CRCs
  for (const std::string& event : {std::string(), std::string("123456789"), std::string(300, '\xff')}) {
    const uint64_t size = event.size();
    const std::string length(reinterpret_cast<const char*>(&size), sizeof(size));
    EXPECT_EQ(tfrecord(event), length + masked(naive_crc(length)) + event + masked(naive_crc(event))) << size;
  }
}

TEST(EventFile, IsNamedAfterTimeHostAndProcess) {
  const TemporaryFolder folder;
  EventFile file(folder.path(), 1700000000);
  EXPECT_TRUE(file.is_first());
  file.append("event");
  EXPECT_EQ(names_in(folder), std::vector<std::string>{own_name("1700000000")});
  EXPECT_EQ(folder.read(own_name("1700000000")), tfrecord("event"));
}

TEST(EventFile, ComesAfterThoseThatAreThereWhateverTheClockSays) {
  const TemporaryFolder folder;
  folder.write("events.out.tfevents.1700000005.zebra.9", "earlier");
  folder.write("metrics.csv", "");
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(EventFile(folder.path(), 1700000000).is_first());
  EXPECT_EQ(names_in(folder),
            (std::vector<std::string>{"events.out.tfevents.1700000005.zebra.9", own_name("1700000006"),
                                      own_name("1700000007"), own_name("1700000008"), "metrics.csv"}));
  EXPECT_EQ(folder.read("events.out.tfevents.1700000005.zebra.9"), "earlier");
}

TEST(EventFile, AFolderThatIsMissingIsNamed) {
  EXPECT_THROW(EventFile("/nonexistent-folder-of-runs", 1), UserError);
}

// The bytes of protobuf's own documentation, "Encoding".
TEST(ProtobufMessage, EncodesAsTheFormatsPageShows) {
  EXPECT_EQ(ProtobufMessage().integer(1, 150).encoded(), "\x08\x96\x01");
  EXPECT_EQ(ProtobufMessage().bytes(2, "testing").encoded(), "\x12\x07testing");
  EXPECT_EQ(ProtobufMessage().message(3, ProtobufMessage().integer(1, 150)).encoded(), "\x1a\x03\x08\x96\x01");
  EXPECT_EQ(ProtobufMessage().real32(16, 1).encoded(), std::string("\x85\x01\0\0\x80\x3f", 6));
  EXPECT_EQ(ProtobufMessage().integer(1, ~uint64_t{0}).encoded(), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  const std::vector<double> two{1, -2};
  EXPECT_EQ(ProtobufMessage().reals64(1, two).encoded(),
            "\x0a\x10" + std::string("\0\0\0\0\0\0\xf0\x3f\0\0\0\0\0\0\0\xc0", 16));
}

/// Counts the values that lie between the limits of each bucket.
std::vector<double> naive_counts(const Histogram& histogram, const std::vector<double>& values) {
  std::vector<double> counts(histogram.limits.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    const double begin = i == 0 ? -std::numeric_limits<double>::infinity() : histogram.limits[i - 1];
    counts[i] = static_cast<double>(std::count_if(
        values.begin(), values.end(), [&](double value) { return begin <= value && value < histogram.limits[i]; }));
  }
  return counts;
}

TEST(Histogram, CountsWhatLiesInEachBucket) {
  std::vector<double> values{0, 0, 0, 1e-12, -1e-12, 1e-13, 1, 1, -1, 1e20, 1e300, -1e300};
  for (int i = -500; i < 500; ++i) values.push_back(std::sinh(i / 25.0));
  const Histogram histogram = histogram_of(torch::tensor(values, torch::kDouble).view({2, -1}));
  EXPECT_EQ(histogram.counts, naive_counts(histogram, values));
  EXPECT_TRUE(std::is_sorted(histogram.limits.begin(), histogram.limits.end()));
  EXPECT_EQ(histogram.count, static_cast<double>(values.size()));
  EXPECT_EQ(histogram.min, -1e300);
  EXPECT_EQ(histogram.max, 1e300);
}

TEST(Histogram, LimitsOfTheBucketsAroundAValueAreATenthApart) {
  const Histogram histogram = histogram_of(torch::tensor({2.0F}));
  const auto full = std::find(histogram.counts.begin(), histogram.counts.end(), 1.0) - histogram.counts.begin();
  ASSERT_EQ(histogram.counts.size(), 3);  // one empty bucket on each side
  ASSERT_EQ(full, 1);
  EXPECT_LE(histogram.limits[0], 2);
  EXPECT_GT(histogram.limits[1], 2);
  EXPECT_NEAR(histogram.limits[1] / histogram.limits[0], 1.1, 1e-9);
  EXPECT_NEAR(histogram.limits[0], 1e-12 * std::pow(1.1, 297), 1e-9);  // 297 = floor(log(2e12) / log(1.1))
}

TEST(Histogram, SumsAreThoseOfTheValues) {
  const Histogram histogram = histogram_of(torch::tensor({1.5, -0.5, 3.0}));
  EXPECT_DOUBLE_EQ(histogram.sum, 4);
  EXPECT_DOUBLE_EQ(histogram.sum_of_squares, 11.5);
}

TEST(Histogram, LeavesOutWhatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Histogram histogram = histogram_of(torch::tensor({1.0, std::nan(""), infinity, -infinity}));
  EXPECT_EQ(histogram.count, 1);
  EXPECT_EQ(histogram.min, 1);
  EXPECT_EQ(histogram.max, 1);
  EXPECT_EQ(histogram.sum, 1);
}

TEST(Histogram, TakesTheLargestNumberAndOtherTypes) {
  const double largest = std::numeric_limits<double>::max();
  EXPECT_EQ(histogram_of(torch::tensor({largest, -largest}, torch::kDouble)).count, 2);
  EXPECT_EQ(histogram_of(torch::tensor({true, false})).sum, 1);
  EXPECT_EQ(histogram_of(torch::ones({3}, torch::kBFloat16).requires_grad_()).sum, 3);
}

TEST(Histogram, OfNoElementsHasOneEmptyBucket) {
  for (const at::Tensor& tensor : {torch::empty({0}), torch::full({2}, std::nan(""))}) {
    const Histogram histogram = histogram_of(tensor);
    EXPECT_EQ(histogram.count, 0);
    EXPECT_EQ(histogram.counts, std::vector<double>{0});
    EXPECT_EQ(histogram.limits, std::vector<double>{std::numeric_limits<double>::max()});
  }
}

}  // namespace
}  // namespace cohort
