// From the names on the command line to the layers: layer_b inherits from layer_a; layer_free goes on anything.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cohort/host/error.hpp>
#include <cohort/host/strategy_layers.hpp>

namespace cohort::host {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct ResolveLayersTest : ::testing::Test {
  Log log{LogSettings{}};
  PluginHost plugins{PluginSearch{{}, {TEST_PLUGIN_FOLDER}}, log};

  // "name:variant key=value ..." for each layer, lowest first.
  std::vector<std::string> resolved(std::string_view strategy, const std::vector<std::string>& free_layers = {}) {
    std::vector<Spec> specs;
    for (const std::string& text : free_layers) specs.push_back(parse_spec(text, "--layer"));
    std::vector<std::string> lines;
    for (const LayerBlueprint& layer : resolve_layers(plugins, parse_spec(strategy, "--strategy"), specs)) {
      std::string line = layer.name + ":" + layer.variant;
      for (uint64_t i = 0; i < layer.options.size(); ++i) {
        line += std::string(" ") + layer.options.data()[i].key + "=" + layer.options.data()[i].value;
      }
      lines.push_back(line);
    }
    return lines;
  }

  template <class Exception>
  std::string refusal(std::string_view strategy, const std::vector<std::string>& free_layers = {}) {
    try {
      resolved(strategy, free_layers);
    } catch (const Exception& error) {
      return error.what();
    }
    return "resolved";
  }
};

TEST_F(ResolveLayersTest, OpensAncestorsTransitively) {
  EXPECT_THAT(resolved("layer_b"), ElementsAre("layer_a:fancy width=1 depth=1024", "layer_b:fancy width=thin"));
  EXPECT_EQ(plugins.loaded().size(), 2u);
}

TEST_F(ResolveLayersTest, GivesAnOptionToTheTopmostLayerThatDeclaresIt) {
  EXPECT_THAT(resolved("layer_b,depth=2KiB,width=wide"),
              ElementsAre("layer_a:fancy width=1 depth=2048", "layer_b:fancy width=wide"));
  EXPECT_THAT(resolved("layer_a,width=5"), ElementsAre("layer_a:slow width=5 depth=1024"));
}

TEST_F(ResolveLayersTest, ChecksAnOptionByTheTopmostDeclaration) {
  EXPECT_THAT(refusal<UserError>("layer_b,width=5"),
              HasSubstr("strategy 'layer_b', option 'width': '5' does not fit the type enum(thin|wide)"));
}

TEST_F(ResolveLayersTest, ShowsOptionsOfTheWholeChainForAnUnknownKey) {
  EXPECT_THAT(refusal<UserError>("layer_b,dept=1"),
              AllOf(HasSubstr("strategy 'layer_b' has no option 'dept'; did you mean 'depth'?"),
                    HasSubstr("Of layer_a alone"), HasSubstr("Of layer_b")));
}

TEST_F(ResolveLayersTest, TakesVariantsOfTheWholeChainAndGivesThemToAll) {
  EXPECT_THAT(resolved("layer_b:slow"), ElementsAre(HasSubstr("layer_a:slow"), HasSubstr("layer_b:slow")));
  EXPECT_THAT(resolved("layer_a"), ElementsAre(HasSubstr("layer_a:slow")));
  EXPECT_THAT(refusal<UserError>("layer_a:fancy"), HasSubstr("no variant 'fancy'; its variants are slow, fast"));
  EXPECT_THAT(refusal<UserError>("layer_b:fasst"),
              HasSubstr("did you mean 'fast'? Its variants are fancy, fast, slow"));
  EXPECT_THAT(refusal<UserError>("two_kinds:x"), HasSubstr("strategy 'two_kinds' has no variants; leave out ':x'"));
}

TEST_F(ResolveLayersTest, PutsFreeLayersOnTopLastHighest) {
  EXPECT_THAT(resolved("two_kinds", {"layer_mute", "layer_free,site=attic"}),
              ElementsAre("two_kinds:", "layer_mute:", "layer_free:loud site=attic"));
}

TEST_F(ResolveLayersTest, GivesAFreeLayerTheStrategysVariantWhereItHasNoneOfItsOwn) {
  EXPECT_THAT(resolved("layer_a:fast", {"layer_mute", "layer_free"}),
              ElementsAre(HasSubstr("layer_a:fast"), "layer_mute:fast", "layer_free:loud site="));
  EXPECT_THAT(refusal<UserError>("layer_a", {"layer_free:fast"}),
              HasSubstr("layer 'layer_free' has no variant 'fast'"));
}

TEST_F(ResolveLayersTest, KeepsOptionsOfFreeLayersApart) {
  EXPECT_THAT(refusal<UserError>("layer_a,site=x", {"layer_free"}),
              HasSubstr("strategy 'layer_a' has no option 'site'"));
  EXPECT_THAT(refusal<UserError>("layer_a", {"layer_free,width=1"}),
              HasSubstr("layer 'layer_free' has no option 'width'"));
}

TEST_F(ResolveLayersTest, KeepsStrategiesAndFreeLayersApart) {
  EXPECT_THAT(refusal<UserError>("layer_free"), HasSubstr("put it on a strategy with --layer=layer_free"));
  EXPECT_THAT(refusal<UserError>("layer_a", {"layer_b"}),
              AllOf(HasSubstr("'layer_b' cannot be used as --layer, because it is a strategy on top of 'layer_a'"),
                    HasSubstr("use --strategy=layer_b")));
  EXPECT_THAT(refusal<PluginRefused>("child_of_free"), HasSubstr("inherits from 'layer_free', which is a free layer"));
}

TEST_F(ResolveLayersTest, RefusesAFreeLayerGivenTwice) {
  EXPECT_THAT(refusal<UserError>("layer_a", {"layer_free", "layer_mute", "layer_free"}),
              HasSubstr("--layer=layer_free is given twice"));
}

TEST_F(ResolveLayersTest, RefusesCircles) {
  EXPECT_THAT(refusal<PluginRefused>("circle_a"), HasSubstr("in a circle: circle_a -> circle_b -> circle_a"));
  EXPECT_THAT(refusal<PluginRefused>("circle_self"), HasSubstr("in a circle: circle_self -> circle_self"));
}

TEST_F(ResolveLayersTest, NamesTheChildOfAMissingParent) {
  EXPECT_THAT(refusal<UserError>("orphan"),
              HasSubstr("strategy 'orphan' inherits from 'gone', but there is no strategy 'gone'"));
}

TEST_F(ResolveLayersTest, ListsInheritedOptionsAndVariantsNearestFirst) {
  const cohort_component& strategy = plugins.open(Kind::kStrategy, "layer_b");
  std::vector<std::string> keys;
  for (const cohort_option& option : inherited_options(plugins, strategy)) keys.emplace_back(option.key);
  EXPECT_THAT(keys, ElementsAre("width", "depth"));
  EXPECT_THAT(inherited_variants(plugins, strategy), ElementsAre("fancy", "fast", "slow"));
}

TEST_F(ResolveLayersTest, ListsTheOwnOptionsOfAFreeLayer) {
  const cohort_component& layer = plugins.open(Kind::kStrategy, "layer_free");
  EXPECT_EQ(inherited_options(plugins, layer).size(), 1u);
  EXPECT_THAT(inherited_variants(plugins, layer), ElementsAre("loud"));
}

}  // namespace
}  // namespace cohort::host
