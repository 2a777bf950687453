#!/bin/sh
# The accelerator `wrong_kernels` errs in each of its kernels; the suite fails what is about them and nothing else.
# Usage: finds_errors_test.sh ACCELERATOR_SUITE PLUGIN
set -eu
wanted='Adam.StepsAsItsFormulaSays
Codec.HasTheBitsOfItsDefinition
Codec.HasThemForRangesFarFromZeroAndForTinyAndHugeOnes
Codec.RoundsHalvesToEven
Codec.SpoilsOnlyTheChunkThatIsNotFinite
Description.CountsItsDevicesTheSameEachTime
Description.HasNothingUnderIdsOfOthers
Elements.AddProductsThatAreRoundedFirst
Elements.CastBetweenAllFloatingTypesRoundedOnce
Elements.CopyBytesFromAnywhereToAnywhere
Elements.FillFloatingTypesWithNanAndInfinity
Elements.FillIntegersWithTheNearestValueAndNanWithZero
Elements.FillWithAValueOfEveryType
Elements.OfOtherTypesAreRefusedAndLeftAlone
Elements.SumFromLeftToRightIntoTheFirstOrElsewhere
Reductions.AddUpInDoublePrecision
Reductions.FindOneNanOrInfinityAnywhere
Reductions.HoldSquaresThatAreTooLargeForTheirType
Ring.ChangesAsItsFormulaSays'
output=$("$1" --accelerator=wrong_kernels --plugin="$2" 2>&1) && { echo "the suite passed" >&2; exit 1; }
failed=$(echo "$output" | sed -n 's/^\[  FAILED  \] \([A-Za-z]*\.[A-Za-z]*\)$/\1/p' | sort -u)
if [ "$failed" != "$wanted" ]; then
  printf 'failed:\n%s\nwanted:\n%s\n' "$failed" "$wanted" >&2
  exit 1
fi
