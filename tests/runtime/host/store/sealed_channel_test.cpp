#include "store/sealed_channel.hpp"

#include <gmock/gmock.h>

#include <vector>

namespace cohort::host {
namespace {

using ::testing::ElementsAre;

TEST(SealedChannel, FramesCannotBeRepeatedOrReordered) {
  const Key key = random_key();
  const Greeting server, client;
  SealedChannel from(SealedChannel::End::kServer, key, server, client);
  const std::string first = from.seal("first"), second = from.seal("second");
  const auto open = [&](std::string received) {
    SealedChannel to(SealedChannel::End::kClient, key, server, client);
    std::vector<std::string> texts;
    try {
      while (auto text = to.open(received, 100)) texts.push_back(*text);
    } catch (const SealedChannel::Forged&) {
      texts.emplace_back("forged");
    }
    return texts;
  };
  EXPECT_THAT(open(first + second), ElementsAre("first", "second"));
  EXPECT_THAT(open(first + first), ElementsAre("first", "forged"));
  EXPECT_THAT(open(second + first), ElementsAre("forged"));
  EXPECT_THAT(open(first.substr(0, first.size() - 1)), ElementsAre());
  EXPECT_EQ((first + second).find("first"), std::string::npos);
  SealedChannel back(SealedChannel::End::kServer, key, server, client);
  std::string reflected = first;
  EXPECT_THROW(back.open(reflected, 100), SealedChannel::Forged) << "each direction has a key of its own";
}

}  // namespace
}  // namespace cohort::host
