#include <cohort/sdk/streaming.hpp>

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace {

TEST(StreamingCopy, CopiesEveryByteAndNoneBesideWhateverSizeAndAlignment) {
  std::vector<unsigned char> from(200);
  std::iota(from.begin(), from.end(), static_cast<unsigned char>(1));
  for (const size_t nbytes : {0u, 1u, 3u, 15u, 16u, 17u, 31u, 64u, 100u}) {
    for (const size_t to_shift : {0u, 1u, 7u, 16u}) {
      for (const size_t from_shift : {0u, 5u}) {
        std::vector<unsigned char> to(200, 0), wanted(200, 0);
        std::copy_n(from.begin() + static_cast<ptrdiff_t>(from_shift), nbytes,
                    wanted.begin() + static_cast<ptrdiff_t>(to_shift));
        cohort::sdk::streaming_copy(to.data() + to_shift, from.data() + from_shift, nbytes);
        cohort::sdk::streaming_fence();
        EXPECT_EQ(to, wanted) << nbytes << " bytes from " << from_shift << " to " << to_shift;
      }
    }
  }
}

}  // namespace
