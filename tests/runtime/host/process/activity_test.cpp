#include <cohort/host/activity.hpp>

#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

namespace cohort::host {
namespace {

void put_name(const void* name, TextInRoom& text) {
  text << *static_cast<const std::string*>(name);
}

TEST(TextInRoom, LeavesOutWhatDoesNotFit) {
  std::array<char, 8> room{};
  TextInRoom text(room);
  text << "step " << 131;
  EXPECT_EQ(text.text(), "step 131");
  text << "!" << -1;
  EXPECT_EQ(text.text(), "step 131");
}

TEST(Activity, IsTheInnermostOfItsThread) {
  const std::string outer = "outer", inner = "inner";
  const ActivityWatch watch;
  EXPECT_EQ(watch.text(), "");
  {
    const Activity one(&outer, put_name);
    EXPECT_EQ(watch.text(), "outer");
    {
      const Activity two(&inner, put_name);
      EXPECT_EQ(watch.text(), "inner");
      std::thread([&] {
        const Activity of_another(&outer, put_name);
        EXPECT_EQ(watch.text(), "inner");
      }).join();
    }
    EXPECT_EQ(watch.text(), "outer");
  }
  EXPECT_EQ(watch.text(), "");
  EXPECT_EQ(watch.changes(), 4U);
}

TEST(ActivityWatch, ReadsNoActivityThatIsOver) {
  const ActivityWatch watch;
  std::atomic<bool> is_over = false;
  std::thread reader([&] {
    while (!is_over) {
      const std::string text = watch.text();
      EXPECT_TRUE(text.empty() || text == "outer" || text == "inner") << text;
    }
  });
  const std::string outer = "outer";
  for (int i = 0; i < 100'000; ++i) {
    const Activity one(&outer, put_name);
    const std::string inner = "inner";
    const Activity two(&inner, put_name);
  }
  is_over = true;
  reader.join();
}

}  // namespace
}  // namespace cohort::host
