#include <stdexcept>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/api/host/log.h>
#include <cohort/host/error.hpp>
#include <cohort/host/host_object.hpp>

namespace cohort::host {
namespace {

using ::testing::StrEq;

LogSettings from_warning() {
  LogSettings settings;
  settings.level = LogLevel::kWarning;
  return settings;
}

struct HostObjectTest : ::testing::Test {
  Log log{from_warning()};
  HostObject object{log};
  const cohort_host* host = object.get();
};

TEST_F(HostObjectTest, GivesBackTheMessageOfTheFailure) {
  EXPECT_EQ(host->fail(host, COHORT_NOT_FOUND, "no such key"), COHORT_NOT_FOUND);
  EXPECT_EQ(object.take_message(COHORT_NOT_FOUND), "no such key");
}

TEST_F(HostObjectTest, NamesTheStatusWhereNoMessageWasLeft) {
  EXPECT_EQ(object.take_message(COHORT_INTERNAL), "INTERNAL");
  EXPECT_EQ(object.take_message(99), "status 99");
  EXPECT_EQ(object.take_message(-1), "status -1");
  EXPECT_EQ(object.take_message(6), "status 6");
  host->fail(host, COHORT_INTERNAL, nullptr);
  EXPECT_EQ(object.take_message(COHORT_INTERNAL), "INTERNAL");
}

TEST_F(HostObjectTest, ForgetsAMessageOnceTaken) {
  host->fail(host, COHORT_NOT_FOUND, "no such key");
  object.take_message(COHORT_NOT_FOUND);
  EXPECT_EQ(object.take_message(COHORT_NOT_FOUND), "NOT_FOUND");
}

TEST_F(HostObjectTest, DropsTheMessageOfAFailureThatThePluginGotOver) {
  host->fail(host, COHORT_NOT_FOUND, "no such key");
  EXPECT_EQ(object.take_message(COHORT_INTERNAL), "INTERNAL");
  EXPECT_EQ(object.take_message(COHORT_NOT_FOUND), "NOT_FOUND");
}

TEST_F(HostObjectTest, GivesPeersTheNumbersOfTheJobOnce) {
  const int32_t ranks[] = {2, 0, 7};
  EXPECT_EQ(host->fail_peers(host, COHORT_UNAVAILABLE, ranks, 3, "broke"), COHORT_UNAVAILABLE);
  object.number_peers(COHORT_DEADLINE_EXCEEDED, {1, 1, 1});  // of another failure
  object.number_peers(COHORT_UNAVAILABLE, {4, 5, 6});
  object.number_peers(COHORT_UNAVAILABLE, {1, 1, 1, 1, 1, 1, 1});
  EXPECT_THAT(object.peers_of(COHORT_UNAVAILABLE), testing::ElementsAre(6, 4));
  EXPECT_THAT(object.peers_of(COHORT_INTERNAL), testing::IsEmpty());
  EXPECT_EQ(object.take_message(COHORT_UNAVAILABLE), "broke");
  EXPECT_THAT(object.peers_of(COHORT_UNAVAILABLE), testing::IsEmpty());
}

TEST_F(HostObjectTest, KeepsMessagesOfThreadsApart) {
  host->fail(host, COHORT_INTERNAL, "of the step");
  std::string from_lane;
  std::thread lane([&] {
    host->fail(host, COHORT_INTERNAL, "of the lane");
    from_lane = object.take_message(COHORT_INTERNAL);
  });
  lane.join();
  EXPECT_EQ(from_lane, "of the lane");
  EXPECT_EQ(object.take_message(COHORT_INTERNAL), "of the step");
}

TEST_F(HostObjectTest, ChecksAStatusWithWhoAndWhy) {
  EXPECT_NO_THROW(object.check(COHORT_OK, "ring.create"));
  host->fail(host, COHORT_INVALID_ARGUMENT, "bits must be 8");
  try {
    object.check(COHORT_INVALID_ARGUMENT, "strategy 'ring'");
    FAIL() << "not thrown";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), StrEq("strategy 'ring': bits must be 8"));
  }
}

TEST_F(HostObjectTest, SaysWhenAFailureCameWithoutAMessage) {
  try {
    object.check(99, "strategy 'ring', create");
    FAIL() << "not thrown";
  } catch (const TrainingFailed& error) {
    EXPECT_THAT(error.what(), StrEq("strategy 'ring', create: status 99, without a message; ask the plugin's authors"));
  }
}

TEST_F(HostObjectTest, HasALogTableThatFiltersByLevel) {
  const auto* table = static_cast<const cohort_log_1*>(host->get_interface(host, COHORT_LOG_ID));
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table->enabled(host, COHORT_LOG_INFO), 0u);
  EXPECT_EQ(table->enabled(host, COHORT_LOG_ERROR), 1u);
  ::testing::internal::CaptureStderr();
  table->log(host, COHORT_LOG_WARNING, "from a plugin");
  table->log(host, COHORT_LOG_INFO, "not shown");
  table->log(host, COHORT_LOG_WARNING, nullptr);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::StartsWith("warning: from a plugin\n"));
}

TEST_F(HostObjectTest, AsksForOtherTablesAndAnswersNullWhereThereIsNone) {
  EXPECT_EQ(host->get_interface(host, "cohort.comm/1"), nullptr);
  EXPECT_EQ(host->get_interface(host, nullptr), nullptr);

  const int table = 0;
  HostObject other(log, [&](std::string_view id) { return id == "cohort.comm/1" ? &table : nullptr; });
  EXPECT_EQ(other.get()->get_interface(other.get(), "cohort.comm/1"), &table);
  EXPECT_EQ(other.get()->get_interface(other.get(), "cohort.comm/2"), nullptr);

  HostObject throwing(log, [](std::string_view) -> const void* { throw std::runtime_error("lookup"); });
  EXPECT_EQ(throwing.get()->get_interface(throwing.get(), "cohort.comm/1"), nullptr);
}

TEST_F(HostObjectTest, LeadsTablesToTheirServices) {
  int services = 7;
  HostObject other(log, {}, &services);
  EXPECT_EQ(HostObject::services_of(other.get()), &services);
  EXPECT_EQ(HostObject::services_of(other.get_for("ddp")), &services);
}

TEST_F(HostObjectTest, GivesAComponentTablesOfItsOwn) {
  int services = 7, own = 8;
  const int table = 0;
  HostObject other(log, {}, &services);
  const auto lookup = [&](std::string_view id) { return id == "cohort.comm/1" ? &table : nullptr; };
  const cohort_host* const door = other.get_for("gloo", lookup, &own);
  EXPECT_EQ(HostObject::services_of(door), &own);
  EXPECT_EQ(door->get_interface(door, "cohort.comm/1"), &table);
  EXPECT_EQ(other.get()->get_interface(other.get(), "cohort.comm/1"), nullptr);
}

TEST(ThrowStatus, ChoosesTheExceptionByWhoCanMendIt) {
  EXPECT_THROW(throw_status(COHORT_INVALID_ARGUMENT, "m"), UserError);
  EXPECT_THROW(throw_status(COHORT_FAILED_PRECONDITION, "m"), UserError);
  EXPECT_THROW(throw_status(COHORT_DEADLINE_EXCEEDED, "m"), PeerFailed);
  EXPECT_THROW(throw_status(COHORT_UNAVAILABLE, "m"), PeerFailed);
  EXPECT_THROW(throw_status(COHORT_ABORTED, "m"), PeerFailed);
  EXPECT_THROW(throw_status(COHORT_INTERNAL, "m"), TrainingFailed);
  EXPECT_THROW(throw_status(-5, "m"), TrainingFailed);
}

}  // namespace
}  // namespace cohort::host
