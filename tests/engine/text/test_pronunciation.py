"""The text front end of the small English model, with the bundled lexicon."""

import gzip
import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InvalidConfig, InvalidInput
from engine.text.cuts import written_size
from engine.text.english.numbers import cardinal, roman
from engine.text.english.pronunciation import (
    MARKS,
    PHONES,
    TOKENS,
    VOWELS,
    WORD_BREAK,
    Lexicon,
    parse_arpabet,
    phone_mark,
)
from engine.text.splitting import MAX_BYTES, split_segments
from tests.paths import BUNDLED

LEXICON = Lexicon.load(BUNDLED / "lexicon.json.gz")


def words(text: str) -> str:
    return " ".join(LEXICON.words(text))


@pytest.mark.parametrize(
    ("text", "phones"),
    [
        ("Hello there.", "hh ax l ow _ dh eh r ."),
        ("Hello", "hh ax l ow ."),
        ("Is it? Yes!", "ih z _ ih t ? y eh s !"),
        ("A cat, a dog", "ax _ k ae t , ax _ d ao g ."),
        ("the apple and the pear", "dh iy _ ae p ax l _ ae n d _ dh ax _ p eh r ."),
        ("Wait -- what?!", "w ey t , w ah t ?"),
        ("dog: cat; hat,", "d ao g , k ae t , hh ae t ."),
        ("It does.", "ih t _ d ah z ."),
    ],
)
def test_phones_of_plain_text(text: str, phones: str) -> None:
    assert LEXICON.phones(text) == phones


def test_phone_marks_replace_words() -> None:
    mark = phone_mark(parse_arpabet("AE1 P ah0  l"))
    assert LEXICON.phones(f"Go, {mark}! Eat the {mark}, or {mark}'s core.") == LEXICON.phones(
        "Go, apple! Eat the apple, or apple's core."
    )
    assert LEXICON.count_phones(mark) == 4
    assert LEXICON.unpronounceable(f"{mark} 你好") == ["你好"]
    assert split_segments(f"{mark}. " * 80, MAX_BYTES, None, written_size)[0][0].endswith(f"{mark}.")
    assert LEXICON.phones("{{cat}}") == LEXICON.phones("cat"), "words in braces are not phones"
    for wrong in ("AE1 Q", "AE3", "AH12", "ae_p"):
        with pytest.raises(InvalidInput, match="is not an ARPAbet phone"):
            parse_arpabet(wrong)


@pytest.mark.parametrize("text", ["", "  ", "...", "[laughing]", "你好", "!?"])
def test_text_without_words_has_no_phones(text: str) -> None:
    assert LEXICON.phones(text) == ""


def test_speaker_turns_are_terminated_and_keep_their_tags() -> None:
    phones = LEXICON.phones("<|speaker:0|>hello[whisper]<|speaker:11|>Yes? <|speaker:0|>go,")
    assert phones == "<|speaker:0|> hh ax l ow . <|speaker:11|> y eh s ? <|speaker:0|> g ow ."


SPOKEN = [
    ("TL;DR: it rained.", "T L D R , it rained ."),
    ("1,234 and 56", "one thousand two hundred thirty four and fifty six"),
    ("1000000 or 12000000000", "one million or twelve billion"),
    ("3.14, 0.5", "three point one four , zero point five"),
    ("007 agents", "zero zero seven agents"),
    (
        "in 1984, 1900 and 1905, or 1910",
        "in nineteen eighty four , nineteen hundred and nineteen oh five , or nineteen ten",
    ),
    ("from 2007 to 2026", "from two thousand seven to twenty twenty six"),
    ("the 1990s and the '80s", "the nineteen nineties and the eighties"),
    ("1st, 2nd, 12th, 20th, 101st", "first , second , twelfth , twentieth , one hundred first"),
    ("$5.50, $1, £2", "five dollars and fifty cents , one dollar , two pounds"),
    ("$0.99", "ninety nine cents"),
    ("He ate a fig. Col. Brown is 5 ft. tall. I saw Jan.",
     "he ate a fig . colonel brown is five feet tall . i saw jan ."),
    ("$3.5 million", "three point five million dollars"),
    ("10% of 3/4", "ten percent of three quarters"),
    ("3:30 p.m., 9:05, 5:00", "three thirty P M , nine oh five , five o'clock"),
    ("at 3 p.m.", "at three P M ."),
    ("Mr. and Mrs. Brown vs. Dr. Ames, etc.", "mister and missus brown versus doctor ames , et cetera ."),
    ("She lives on Main St. He left.", "she lives on main street . he left ."),
    ("Visit St. Paul.", "visit saint paul ."),
    ("Jan. 3, 2007", "january third , two thousand seven"),
    ("June 21 and 5 km at 1 ft", "june twenty first and five kilometers at one foot"),
    ("5 g or 5G, 10 m or 10M, 3 s or 3S", "five grams or five G , ten meters or ten M , three seconds or three S"),
    ("9 ms, 35MM, 5 Kg", "nine milliseconds , thirty five millimeters , five kilograms"),
    ("Mark 5, Mars 2, Octopus 8, Mayor 3", "mark five , mars two , octopus eight , mayor three"),
    ("Sept 4 and Mar 2", "september fourth and march second"),
    ("$5M, £2.5bn or €5k", "five million dollars , two point five billion pounds or five thousand euros"),
    ("the FBI, NASA and the U.S.A. saw TVs", "the F B I , nasa and the U S A saw T V's"),
    ("I SAID NO TO THIS", "i said no to this"),
    ("rock & roll @ 5 + 6 = 11", "rock and roll at five plus six equals eleven"),
    ("me@example.com", "me at example dot com"),
    ("version 2.0.1", "version two point zero point one"),
    ("from 3-5, -4 degrees", "from three to five , minus four degrees"),
    ("Café naïve façade Ångström", "cafe naive facade angstrom"),
    ("well-known mother-in-law", "well known mother in law"),
    ("‘It’s’ “fine” — really…", "it's' fine , really ."),
    # Money
    ("It is -$5.", "it is minus five dollars ."),
    ("$10-20, $1M–$2M, 5€, 20 EUR",
     "ten to twenty dollars , one million dollars to two million dollars , five euros , twenty euros"),
    ("US$40, USD 50 and A$1", "forty U S dollars , fifty U S dollars and one australian dollar"),
    ("It rose $US2 to $US9 million, not $A28",
     "it rose two U S dollars to nine million U S dollars , not twenty eight australian dollars"),
    ("$2.4tn, US $9, ₩300 billion, R$8",
     "two point four trillion dollars , nine U S dollars , three hundred billion won , R eight dollars"),
    ("A $100-million deal, a $5 bill, $2½ million",
     "a one hundred million dollar deal , a five dollar bill , two and one half million dollars"),
    ("€12,50, 9,05 € or €1,500",
     "twelve euros and fifty cents , nine euros and five cents or one thousand five hundred euros"),
    ("8 hours/day or 20 searches/month", "eight hours per day or twenty searches per month"),
    ("$3/month", "three dollars per month"),
    ("$.99 or ₹1,00,000", "ninety nine cents or one hundred thousand rupees"),
    ("$10/hr, $5/lb, 3 times/week", "ten dollars per hour , five dollars per pound , three times per week"),
    ("A $5 or $6 million house, an $800 phone, a $9.99 plan. It cost a $5.",
     ("a five dollar or six million dollar house , an eight hundred dollar phone , a nine dollar and ninety "
     "nine cent plan . "
     "it cost a five dollars .")),
    ("$1.5-$2bn, $50 USD, $5 CAD, ~$5, 5¢/min",
     ("one point five to two billion dollars , fifty U S dollars , five canadian dollars , about five dollars , "
     "five cents per minute")),
    # Dates and times
    ("The 4th of July. Happy 4th of July! The 1st of May",
     "the fourth of july . happy fourth of july ! the first of may"),
    ("June 1-3, Oct 3-5, 2024, Dec. 24–26",
     "june first to third , october third to fifth , twenty twenty four , december twenty fourth to twenty sixth"),
    ("From 3–5 October, the 1st-3rd of May, 2nd-4th",
     "from the third to the fifth of october , the first to the third of may , second to fourth"),
    ("I waited 1h 30m. It took 5m 30s, 3m ago.",
     "i waited one hour and thirty minutes . it took five minutes and thirty seconds , three minutes ago ."),
    ("Wait 30s, in their 30s and 40s, for 80s music, the 90s",
     "wait thirty seconds , in their thirties and forties , for eighties music , the nineties"),
    ("100s of people, 1,000s more, three 7s, Windows 95s",
     "hundreds of people , thousands more , three sevens , windows ninety fives"),
    ("the 1960's and the 60's, 2021's best", "the nineteen sixty's and the sixty's , twenty twenty one's best"),
    ("It takes 5s, a 30s pause, 1s, 3s-5s",
     "it takes five seconds , a thirty seconds pause , one second , three seconds to five seconds"),
    ("The England Under-21s, the over-55s", "the england under twenty ones , the over fifty fives"),
    ("It defaults to 10s, 10s of it, the 10s", "it defaults to ten seconds , tens of it , the tens"),
    ("100s later", "one hundred seconds later"),
    ("It is 1:05:30 long, at 1:30:00 or 10:00:05 pm",
     "it is one hour five minutes and thirty seconds long , at one thirty or ten and five seconds P M"),
    ("Wed. at 3, Sat. and Sun. Open Mon-Fri.",
     "wednesday at three , saturday and sunday . open monday to friday ."),
    ("01-Feb-02, until 2/3 full, on 2/3",
     "the first of february oh two , until two thirds full , on february third"),
    ("Monday 1/5, on Friday 2/4 after noon, on 1/5 at noon, due 1/3 by noon, on 1/2 price",
     ("monday january fifth , on friday february fourth after noon , on january fifth at noon , due january third "
     "by noon , on one half price")),
    ("Ann (00:54:38): From 40:00 to 45:30.",
     "ann , fifty four minutes and thirty eight seconds , from forty minutes to forty five thirty ."),
    ("2024/05/06, May–June 2020", "may sixth , twenty twenty four , may to june twenty twenty"),
    ("the 42nd St Library", "the forty second street library"),
    ("We saw the Sun. He sat.", "we saw the sun . he sat ."),
    ("2024-03-14 and 3/4/2024", "march fourteenth , twenty twenty four and march fourth , twenty twenty four"),
    ("25/12/1999 and 14.03.2005",
     "december twenty fifth , nineteen ninety nine and march fourteenth , two thousand five"),
    ("On 5 May 2020, after his 14th March speech on the 2nd of June. May I?",
     "on the fifth of may twenty twenty , after his fourteenth march speech on the second of june . may i ?"),
    ("In Aug 2020", "in august twenty twenty"),
    ("9am-5pm, 9:00-17:00", "nine A M to five P M , nine o'clock to seventeen hundred"),
    ("10:30-11, 10:30-11:45", "ten thirty to eleven , ten thirty to eleven forty five"),
    ("At 5 p.m. Mary left, at 9 a.m. Eastern time",
     "at five P M , mary left , at nine A M eastern time"),
    ("1:30:05, 8.30am", "one thirty and five seconds , eight thirty A M"),
    ("NOV. 11 and feb 3, may 5 of us march 7 miles",
     "november eleventh and february third , may five of us march seven miles"),
    ("Apr–Jun, Nov. '22, 7-Aug-2019, 07-08-2019",
     "april to june , november twenty two , the seventh of august twenty nineteen , july eighth , twenty nineteen"),
    ("on 8/3, Sunday, 4/7, on 2/3 of it", "on august third , sunday , april seventh , on two thirds of it"),
    ("since 9/11, a holiday 1/2 as long", "since nine eleven , a holiday one half as long"),
    ("in the '00s", "in the two thousands"),
    ("1950s-60s, two B-52s, CRJ 7s", "nineteen fifties to sixties , two B fifty twos , C R J sevens"),
    ("In 4:02.15, at 9:30EST, 1 hr. 10 min. now",
     "in four minutes and two point one five seconds , at nine thirty E S T , one hour and ten minutes now"),
    ("2021-06-05T07:45", "june fifth , twenty twenty one seven forty five"),
    ("Sat 10am, Mon, 5 Jan, Fri 12/8, Tues morning. He sat. The Sun, May 5",
     ("saturday ten A M , monday , the fifth of january , friday december eighth , tuesday morning . he sat . "
     "the sun , may fifth")),
    ("due 12/25, the class of '05, V8s and the 747s",
     ("due december twenty fifth , the class of oh five , V eights and the seven hundred forty "
     "sevens")),
    ("Mon.-Fri., 9 a.m., Mon and Fri 9am", "monday to friday , nine A M , monday and friday nine A M"),
    ("at 9 GMT-5, UTC-5:30", "at nine G M T minus five , U T C minus five thirty"),
    # Telephone numbers and other identifiers
    ("(415) 555-2671", "four one five , five five five , two six seven one"),
    ("Call 911 or 555-0199.", "call nine one one or five five five , zero one nine nine ."),
    ("+44 20 7946 0958", "plus four four , two zero , seven nine four six , zero nine five eight"),
    ("1-888-PLUMBER, (415)-555-2671",
     "one , eight hundred eighty eight , plumber , four one five , five five five , two six seven one"),
    ("07700 900461", "zero seven seven zero zero , nine zero zero four six one"),
    ("5100 2200 3300", "five one zero zero , two two zero zero , three three zero zero"),
    ("won 12-3-1", "won twelve , three , one"),
    ("123-45-6789", "one two three , four five , six seven eight nine"),
    ("from 100-1500 and 476-1453",
     "from one hundred to fifteen hundred and four hundred seventy six to fourteen fifty three"),
    # Fractions, measures and sums
    ("2 1/2 cups, 1½, ⅓", "two and one half cups , one and one half , one third"),
    ("9.8 m/s², 10 km², 1 ft", "nine point eight meters per second squared , ten square kilometers , one foot"),
    ("5'10\" and 6 ft 2 in, 3 sq. ft.", "five foot ten and six foot two , three square feet ."),
    ("It falls 9.8 m/s^2. I am 5 ft 10 in. You are 6 ft 2 in. tall",
     "it falls nine point eight meters per second squared . i am five foot ten . you are six foot two tall"),
    ("A 27\" monitor, a 6' fence, 3/4\" bolts, 5\" long",
     "a twenty seven inch monitor , a six foot fence , three quarters inch bolts , five inches long"),
    ("\"The 27\" and \"the 5'10\" man\", 'the 6' and the boys' 6' fence",
     "the twenty seven and the five foot ten man , the six and the boys' six foot fence"),
    ("A 5-lb bag, a 12-oz. can and a 3-in. nail. I have 3-4 in all.",
     "a five pound bag , a twelve ounce can and a three inch nail . i have three to four in all ."),
    (".5 in. of rain, 1/2 tsp salt, 2 1/4 lbs. of it",
     "point five inches of rain , one half teaspoon salt , two and one quarter pounds of it"),
    ("40 million km, 2 qt. at $3 per lb. now",
     "forty million kilometers , two quarts at three dollars per pound now"),
    ("$2 per lb. Then 5 per HR. now", "two dollars per pound . then five per hour now"),
    ("7 mg/kg, 1 km/s, 2.5 g/cm³",
     "seven milligrams per kilogram , one kilometer per second , two point five grams per cubic centimeter"),
    ("a 9 x 13-inch pan, 1600 x 1200, 2 x 3 = 6, 4 x 10-6, 6.022 x 10^23, 2.5 x 10^3",
     ("a nine by thirteen inch pan , sixteen hundred by twelve hundred , two times three equals six , four "
     "times ten to six , six point zero two two times ten to the power of twenty three , two point five times "
     "ten cubed")),
    ("5 feet x 3 feet, 4-inch x 5 pieces, 9 feet × 7 kg",
     "five feet by three feet , four inch by five pieces , nine feet times seven kilograms"),
    ("2 Tbs. sugar, 6 oz./170 g or 1 lb. (500 g)",
     ("two tablespoons sugar , six ounces slash one hundred seventy grams or one pound , five hundred grams ,")),
    ("30 m2, 4x5 ft, 12 x 9 ft", "thirty square meters , four by five feet , twelve by nine feet"),
    ("80°C/fan 60°C", "eighty degrees celsius slash fan sixty degrees celsius"),
    ("2e-7, -.1875", "two times ten to the power of minus seven , minus point one eight seven five"),
    ("1 mi, 1 hr, 2 GHz, 100 W", "one mile , one hour , two gigahertz , one hundred watts"),
    ("3 lbs. of it", "three pounds of it"),
    ("5%-10%, 20°C-25°C",
     "five percent to ten percent , twenty degrees celsius to twenty five degrees celsius"),
    ("5kg-10kg", "five kilograms to ten kilograms"),
    ("a loss of 68m euros, 1.7m people in the 60m final",
     "a loss of sixty eight million euros , one point seven million people in the sixty meters final"),
    ("33 rpm, 5 mmol/L and 1 psi",
     "thirty three revolutions per minute , five milli moles per liter and one pound per square inch"),
    ("10 kΩ, 4.7 µF, 3 mW or 3 MW",
     "ten kilo ohms , four point seven micro farads , three milli watts or three mega watts"),
    ("a 300 hp engine, 2 HP laptops, 8 Nm, 8 nm",
     "a three hundred horsepower engine , two H P laptops , eight newton meters , eight nanometers"),
    ("£35/m², $7/sq ft", "thirty five pounds per square meter , seven dollars per square foot"),
    ("100 Mbit/s", "one hundred megabits per second"),
    ("A blood pressure of 120/80, then 95/60 mmHg",
     "a blood pressure of one hundred twenty over eighty , then ninety five over sixty millimeters of mercury"),
    ("error 0x1F4A", "error zero X one F four A"),
    (".5, 1,000th, ~5, 2:1", "point five , one thousandth , about five , two to one"),
    ("5-3=2, 6/2=3", "five minus three equals two , six divided by two equals three"),
    ("10⁶, 10⁻³, 5², word¹",
     "ten to the power of six , ten to the power of minus three , five squared , word one"),
    ("x⁴ and 2³¹", "x to the power of four and two to the power of thirty one"),
    ("25 ºC, 20‰, № 5, 5 µm, 3 μs",
     "twenty five degrees celsius , twenty per thousand , number five , five micrometers , three microseconds"),
    ("2^10, m^2", "two to the power of ten , m squared"),
    ("10M views, 2.5k followers, a 5k run", "ten million views , two point five thousand followers , a five k run"),
    ("1.5m people, 3bn users, 2 mn", "one point five million people , three billion users , two million"),
    ("$3.50/gal", "three dollars and fifty cents per gallon"),
    ("50k-100k people, 5k–10k, Llama-3.1-8B",
     "fifty thousand to one hundred thousand people , five k to ten k , llama three point one eight B"),
    ("1 000 000 or €1.234,56",
     "one million or one thousand two hundred thirty four euros and fifty six cents"),
    ("192.168.0.1", "one hundred ninety two dot one hundred sixty eight dot zero dot one"),
    ("10 - 3 = 7, 2*3, 2 x 3", "ten minus three equals seven , two times three , two by three"),
    ("(80 - 82.4)² or (5-3)^2, but (5-3)",
     "eighty minus eighty two point four , squared or , five minus three , squared , but , five to three ,"),
    ("8/8, 7/100, 9/32, 5/16 inch, in 6/8 time",
     "eight out of eight , seven one hundredths , nine thirty seconds , five sixteenths inch , in six eight time"),
    ("24/7, 50/50", "twenty four seven , fifty fifty"),
    ("5 mg/kg/day, 5 fl. oz. now, 25 bps, 3 wks. old. It is 5 in.",
     ("five milligrams per kilogram per day , five fluid ounces now , twenty five basis points , three weeks "
     "old . it is five inches .")),
    ("A 65\" 4K TV, a 4'x8' sheet, 2\" x 4\" wood, 3⁄4, –5 °C",
     ("a sixty five inch four K T V , a four feet by eight foot sheet , two inches by four inch wood , three "
     "quarters , minus five degrees celsius")),
    ("40.7° N, 7°5'3\"W, 10°30′E, BP 120/80",
     ("forty point seven degrees north , seven degrees five minutes three seconds west , ten degrees thirty "
     "minutes east , B P one hundred twenty over eighty")),
    ("40°26′46″N 79° 58' 56\" W",
     ("forty degrees twenty six minutes forty six seconds north seventy nine degrees fifty eight minutes fifty six "
     "seconds west")),
    ("3x/week, 2x daily, 14st 2lb, 11st or 11th, 12st",
     ("three times per week , two times daily , fourteen stone two pounds , eleven stone or eleventh , twelve "
     "stone")),
    ("²³⁵U, Ca²⁺, SO₄²⁻, x²", "two hundred thirty five U , ca two plus , S O four two minus , x squared"),
    ("350 W 42nd St, 5 W. Main St., 5 W",
     "three hundred fifty west forty second street , five west main street , five watts"),
    ("x >= 3, y != 4, e^x, A -> B",
     "x greater than or equal to three , y not equal to four , e to the power of x , A , B"),
    # Addresses
    ("From: Ann <ann@a.com>, see <https://b.org>.", "from , ann , ann at a dot com , see , b dot org ."),
    ("Ask lee.k-b@my-shop.co.uk or see my-shop.com/all-of-it.",
     "ask lee dot k dash b at my dash shop dot co dot U K or see my dash shop dot com slash all dash of dash it ."),
    ("Salem, OR, and Bangor, ME 04401-2345. Well, OK.",
     "salem , oregon , and bangor , maine , zero four four zero one , two three four five . well , ok ."),
    ("Fifth Ave at Sunset Blvd, c/o Ave Maria", "fifth avenue at sunset boulevard , care of ave maria"),
    ("Apt. 4B, NY 10001", "apartment four B , new york , one zero zero zero one"),
    ("Take Route 66 W or I-95 N.", "take route sixty six west or i ninety five north ."),
    # Names
    ("World War II, Henry VIII and Chapter IV", "world war two , henry the eighth and chapter four"),
    ("CHAPTER IX", "chapter nine"),
    ("THE PART I LIKE", "the part i like"),
    ("II. The River", "two . the river"),
    ("I. The Boat", "one . the boat"),
    ("V. Woolf saw Act II, Scene iii on page xii, in the XX century, after WWII.",
     "V woolf saw act two , scene three on page twelve , in the twentieth century , after world war two ."),
    ("John V. Hill met King John V. of it, as Title X. of it says. So am I – I think so.",
     "john V hill met king john V of it , as title X of it says . so am i , i think so ."),
    ("est. 2,500 people", "estimated two thousand five hundred people"),
    ("a Ph.D student, e.g Ann", "a P H D student , for example , ann"),
    ("the U.S economy, E. coli, Hall v. Park, A–Z", "the U S economy , E coli , hall versus park , A to Z"),
    ("Pres. Lincoln, cf. Hale, est. 1920, min. 5, 3 min. 5",
     "president lincoln , compare hale , established nineteen twenty , minimum five , three minutes . five"),
    ("Our IT team has IT jobs in IT. I like IT.", "our I T team has it jobs in I T . i like it ."),
    ("a 401(k), f(x), book(s), really(!)", "a four hundred one k , f x , books , really !"),
    ("α and β-carotene, 2πr, ΔT, √2", "alpha and beta carotene , two pi r , delta T , square root of two"),
    ("Elizabeth I of England, Super Bowl XLII", "elizabeth the first of england , super bowl forty two"),
    ("The Part I like, an IV drip, size XL, Malcolm X", "the part i like , an I V drip , size X L , malcolm X"),
    ("https://www.example.com/a-b?q=1.", "W W W dot example dot com slash a dash b question mark q equals one ."),
    ("a Ph.D. in physics", "a P H D in physics"),
    ("Dr Smith met Ms Lee in St Andrews, on Maple Dr and Elm St.",
     "doctor smith met miz lee in saint andrews , on maple drive and elm street ."),
    ("On Monday Dr. Smith, Sgt Lee and Lt Dan", "on monday doctor smith , sergeant lee and lieutenant dan"),
    ("George W. Bush, J. K. Rowling. Plan B. All go.", "george W bush , J K rowling . plan B . all go ."),
    ("When I met Mary I was happy. Queen Mary I was crowned.",
     "when i met mary i was happy . queen mary the first was crowned ."),
    ("The Part I hate", "the part i hate"),
    ("I said no. 3 left. See no. 5.", "i said no . three left . see number five ."),
    ("10 AM EST in LA, an HP laptop from CT", "ten A M E S T in L A , an H P laptop from C T"),
    ("AT&T and M&Ms", "A T and T and M and M's"),
    ("CO2, the A380, Vitamin A and A+", "C O two , the A three hundred eighty , vitamin A and A plus"),
    ("five A's", "five A's"),
    ("A: He did. (A) Yes or a) no, A/B, A & B, three As; As is. A… man",
     "A , he did . A , yes or A , no , A slash B , A and B , three A's , as is . a . man"),
    ("Us too. The WHO in WW2 and §§ 5-6", "us too . the W H O in world war two and sections five to six"),
    ("B♭ and Bb major, C♯, rock 'n' roll", "B flat and B flat major , C sharp , rock and roll"),
    ("If 'n' is odd, it is rock 'n' roll, Rock'n'Roll, fish 'n' chips or drag'n'drop",
     "if n' is odd , it is rock and roll , rock and roll , fish n' chips or drag and drop"),
    ("It was _really_ ____ my_file, N°5, Mr Hill, the govt. of it",
     "it was really my underscore file , number five , mister hill , the government of it"),
    ("OpenAI's, GoodMorning's, macOS, mRNA, getUserName, #GoodMorning, YouTube",
     "open A I's , good morning's , mac O S , M R N A , get user name , hashtag good morning , youtube"),
    ("1 Cor. 13:4-8, John 3:16, Ps. 23:4. Mark 10:30 am",
     ("first corinthians thirteen , verses four to eight , john three , verse sixteen , psalm twenty three , "
     "verse four . mark ten thirty A M")),
    ("Tim 7:45, Kings 3:2, John 10:00, 2 Timothy 3:16",
     "tim seven forty five , kings three to two , john ten o'clock , second timothy three , verse sixteen"),
    ("Bake at 350 degrees F. Grease it. The FT. But he has MS. It is so. MS. SMITH came.",
     "bake at three hundred fifty degrees F . grease it . the F T . but he has M S . it is so . miz smith came ."),
    ("15 U.S.C. 1693, c. 1850", "fifteen U S C sixteen ninety three , circa eighteen fifty"),
    ("new ideas (e.g., AR, VR) in Bath, ME", "new ideas , for example , ar , V R , in bath , maine"),
    ("Hill Bros. They left. The govt. of it", "hill brothers . they left . the government of it"),
    ("the CEOs' pay", "the C E O's pay"),
    ("Click File → Open", "click file , open"),
    ("C# and .NET", "C sharp and dot net"),
    ("a B- in Rm. 204, ca. 1850", "a B minus in room two hundred four , circa eighteen fifty"),
    ("In 1990 Mr. Smith met 2 Capt. Kirks. In 2021 Ms. Lee",
     "in nineteen ninety mister smith met two captain kirks . in twenty twenty one miz lee"),
    ("In 2020 St. Louis won, 5 vs. 6", "in twenty twenty saint louis won , five versus six"),
    ("In 1990 No. 5 was 5 ft. tall. It took 3 ms. And 3 sq. ft.",
     "in nineteen ninety number five was five feet tall . it took three milliseconds . and three square feet ."),
    ("1.25/4 tsp", "one point two five slash four teaspoons"),
    ("Rated 4.5/5 stars or 9.5 / 10.",
     "rated four point five out of five stars or nine point five out of ten ."),
    ("55 m.p.h., 10 G.B. at 10 W. Main St.", "fifty five M P H , ten G B at ten west main street ."),
    ("Apt. 5, ext. 5, tel. 7, Chap. 5, pt. 2",
     "apartment five , extension five , telephone seven , chapter five , part two"),
    ("Bldg. 7, Ste. 200, op. 5", "building seven , suite two hundred , opus five"),
    ("They founded the co-op. 20 people came.", "they founded the co op . twenty people came ."),
    ("Fig. A, Vol. II, Ch. IV, Sec. I", "figure A , volume two , chapter four , section one"),
    ("On Mon. Jan 5 and Sun. May 3 we met", "on monday january fifth and sunday may third we met"),
    ("no. 5, pp. 3-7, Smith et al. said", "number five , pages three to seven , smith et al said"),
    ("the FBI, CIA, NASA and NATO came", "the F B I , C I A , nasa and nato came"),
    ("1’000 or 1'250'000.50 of O'Neill's '90s",
     "one thousand or one million two hundred fifty thousand point five zero of o'neill's nineties"),
    ("2 c. flour, 1 c. milk, 1 1/2 c. sugar, 1 pkg. yeast, 2 qts. water",
     "two cups flour , one cup milk , one and one half cups sugar , one package yeast , two quarts water"),
    ("Her iPhone 5s rang for 5s", "her iphone five S rang for five seconds"),
    ("12. Nf3 Nc6 13. Bb5 O-O-O",
     "twelve , knight F three , knight C six , thirteen , bishop B five , castles queenside"),
    ("He plays 31. exd8=Q+ or 32. Bxf7#",
     ("he plays , thirty one , E takes D eight promotes to queen , check or , thirty two , bishop takes F seven , "
     "checkmate")),
    ("Re2: the gene Nd4, the ion Ba2+ and the chords Bb7 Bb7 Eb7",
     "re two , the gene nd four , the ion ba two plus and the chords bb seven bb seven eb seven"),
    ("If $x^2 + y_1 = z^{10}$ and $\\alpha$", "if X squared plus Y sub one equals Z to the power of ten and alpha"),
    (r"Let \( j \) be \(\frac{p}{q}\), so that \( V = \frac{4}{3} \pi r^3 \) is \(5.74 \times 10^{21}\).",
     ("let J be P over Q , so that V equals four over three pi R cubed is five point seven four times ten to the "
     "power of twenty one .")),
    (r"If $E = mc^2$, then $$d = 10$$ or \text{area} \times 5.",
     "if E equals M C squared , then D equals ten or , area , times five ."),
    (r"A \*star\*, one\_two, 5 \~ 6 and C:\Users",
     "a star , one underscore two , five about six and C colon backslash users"),
    ("It is $5 or $9, US$3 or a $", "it is five dollars or nine dollars , three U S dollars or a dollars"),
    ("5$, 10$ or the US$/A$ rate", "five dollars , ten dollars or the U S dollars slash a dollars rate"),
    ("In US$, A$, C$, $, A$ ($)", "in U S dollars , a dollars , C dollars , dollars , a dollars , dollars ,"),
    ("At 2001:db8::1, ::1 or at 10:30:05",
     "at two zero zero one colon D B eight colon colon one , colon colon one or at ten thirty and five seconds"),
    (r"Open C:\Users\text\a.txt, or D:\temp.",
     "open C colon backslash users backslash text backslash a dot txt , or D colon backslash temp ."),
    ("Sing the Ave. Maria on Park Ave. She left.", "sing the ave maria on park avenue . she left ."),
    ("Apt 4B, 5th Fl., 12 Oak St.", "apartment four B , fifth floor , twelve oak street ."),
    ("Albany NY 12207 or Washington, DC 20500",
     "albany new york , one two two zero seven or washington , D C , two zero five zero zero"),
    ("26 mi. (42 km) in Hall III", "twenty six miles , forty two kilometers , in hall three"),
    ("XII. The Return", "twelve . the return"),
    ("XX. The end", "twenty . the end"),
    ("XX", "X X"),
    ("See vol. II, scene iii.", "see volume two , scene three ."),
    ("2m + 1, 2m + 3m, 5g + 3 oz", "two M plus one , two meters plus three meters , five grams plus three ounces"),
    ("NaCl, H2SO4, KNO3, Fe2O3", "N A C L , H two S O four , K N O three , F E two O three"),
    ("NaN, SCOPUS, PS5, COPS2", "nan , scopus , P S five , cops two"),
    ("The pH of #A-1043 is 7.", "the P H of number A ten forty three is seven ."),
    ("nasa.gov. Gov. Hill", "nasa dot gov . governor hill"),
    ("A 5-ft.-tall fence, $8/child, 460-c. 370 BC",
     "a five foot tall fence , eight dollars per child , four hundred sixty circa three hundred seventy B C"),
    ("At 19h30, 7h05 and 24h00, not 2h30m or 5h60",
     "at nineteen thirty , seven oh five and twenty four hundred , not two hours and thirty minutes or five h sixty"),
    ("A 5-10 USD fee, 2-3 EUR/kg, 5-10 €",
     "a five to ten U S dollar fee , two to three euros per kilogram , five to ten euros"),
    ("5-10 $20 bills", "five to ten twenty dollar bills"),
    ("100 Mb/s, 1 Tb/sec, 5 MB/s and a 40 kb file",
     "one hundred megabits per second , one terabit per second , five megabytes per second and a forty kilobytes file"),
    ("$5/each, €2 / ea", "five dollars each , two euros each"),
    ("127.0.0.1:80 +/-5",
     "one hundred twenty seven dot zero dot zero dot one colon eighty plus or minus five"),
    ("Fr. Brown, b. 1917, i.e., in the 3rd qtr.",
     "father brown , born nineteen seventeen , that is , in the third quarter ."),
    ("Order ID 20500, or log in OR 20500",
     "order I D twenty thousand five hundred , or log in or twenty thousand five hundred"),
    ("The answer is b. 1945, not a. 1200, b. 1500.",
     "the answer is b . nineteen forty five , not a . twelve hundred , b . fifteen hundred ."),
    ("Ann (b. 1917, d. 1999), Ben (d. 1950)",
     "ann , born nineteen seventeen , died nineteen ninety nine , ben , died nineteen fifty ,"),
    ("The #G20, #F1 and #A1043", "the hashtag G twenty , hashtag F one and number A ten forty three"),
    ("1h = 60 minutes, 2m = 200 cm, 2m = 6",
     "one hour equals sixty minutes , two meters equals two hundred centimeters , two M equals six"),
    ("It costs 5 Fr. Then Fr. Hill left for Fr. 20.", "it costs five fr . then father hill left for fr . twenty ."),
    (r"x:\alpha, P:\mathbb{R} and c:\beta", "x , alpha , P , backslash mathbb , R , and C colon backslash beta"),
    ("1:2:3:4:a:b:c:d", "one colon two colon three colon four colon A colon B colon C colon D"),
]  # fmt: skip


def test_words_with_accents_have_their_own_readings() -> None:
    readings = {
        "a résumé": "ax _ r eh z ax m ey .",
        "her résumé’s résumés": "hh er _ r eh z ax m ey z _ r eh z ax m ey z .",
        "RE\u0301SUME\u0301": "r eh z ax m ey .",
        "to resume": "t ax _ r ih z uw m .",
        "rosés": "r ow z ey z .",  # "roses" has one more syllable, and no "ey"
        "fiancée": "f iy ae n s ey .",
        "touché": "t uw sh ey .",
        "café": LEXICON.phones("cafe"),
        "Muñoz": LEXICON.phones("Munoz"),
        "Inés": LEXICON.phones("Ines"),  # no plural
        "mañana": "m ae n y ae n ax .",
        "é": LEXICON.phones("e"),
    }
    assert {text: LEXICON.phones(text) for text in readings} == readings


def test_numbers_and_abbreviations_are_spelled_out() -> None:
    assert [(text, words(text)) for text, _ in SPOKEN] == SPOKEN


@pytest.mark.parametrize(
    ("word", "phones"),
    [
        ("googles", "g uw g ax l z"),
        ("blick's", "b l ih k s"),
        ("walked", "w ao k t"),
        ("F", "eh f"),
        ("V's", "v iy z"),
        ("pdf", "p iy d iy eh f"),
        ("phd", "p iy ey ch d iy"),
        ("sirs", "s er z"),
        ("hmm", "hh ah m"),
    ],
)
def test_inflected_and_spelled_words(word: str, phones: str) -> None:
    assert LEXICON.word(word) == phones


def test_suffix_rules_derive_unlisted_words() -> None:
    small = Lexicon({"zib": "z ih b", "kosh": "k aa sh", "fot": "f aa t", "late": "l ey t"}, {})
    derived = {word: small.word(word) for word in ("zibs", "kosh's", "fotted", "fotting", "zibbed", "lating")}
    assert derived == {
        "zibs": "z ih b z",
        "kosh's": "k aa sh ax z",
        "fotted": "f aa t ax d",
        "fotting": "f aa t ih ng",
        "zibbed": "z ih b d",
        "lating": "l ey t ih ng",
    }


def test_unknown_words_are_sounded_out() -> None:
    assert LEXICON.word("blick") == "b l ih k"
    assert LEXICON.word("thrimble") == "th r ih m b ax l"


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("Plain English, with 5 % and a café 😀™.", []),
        ("Say 你好, friend", ["你好"]),
        ("Привет and привет, مرحبا", ["Привет", "привет", "مرحبا"]),
        ("توقف المطر، «وعادت»؟ नमस्ते। こんにちは、世界。", ["توقف", "المطر", "وعادت", "नमस्ते", "こんにちは、世界"]),
        ("Click File → Open", []),
        ("π is ∂ and Ωmega", ["∂", "Ωmega"]),
        ("τὰ λόγια", ["τὰ", "λόγια"]),
        ("<|speaker:0|>fine [愉快]", []),
    ],
)
def test_words_of_other_scripts_are_reported_as_unspoken(text: str, lost: list[str]) -> None:
    assert LEXICON.unpronounceable(text) == lost


@given(st.text(max_size=60))
def test_any_text_gives_known_tokens_in_valid_order(text: str) -> None:
    tokens = LEXICON.phones(text).split()
    assert all(token in TOKENS or re.fullmatch(r"<\|speaker:\d+\|>", token) for token in tokens)
    if tokens and tokens[-1] in TOKENS:
        assert tokens[-1] in ".?!"
    for before, after in itertools.pairwise(tokens):
        assert before in PHONES or after in PHONES or "<|" in before + after
        assert not (before == WORD_BREAK and after in MARKS)


@pytest.mark.parametrize(
    ("text", "phones"),
    [
        ("I read it.", "ay _ r eh d _ ih t ."),
        ("Read it. I will read.", "r iy d _ ih t . ay _ w ih l _ r iy d ."),
        ("Close it. It is close.", "k l ow z _ ih t . ih t _ ih z _ k l ow s ."),
        ("Close to it.", "k l ow s _ t ax _ ih t ."),
        ("a record", "ax _ r eh k er d ."),
        ("They refuse it.", "dh ey _ r ih f y uw z _ ih t ."),
        ("Excuse me, an excuse", "ih k s k y uw z _ m iy , ae n _ ih k s k y uw s ."),
        ("Use the use.", "y uw z _ dh ax _ y uw s ."),
        ("We live a live show", "w iy _ l ih v _ ax _ l ay v _ sh ow ."),
        ("Separate or estimate", "s eh p r ax t _ ao r _ eh s t ax m ax t ."),
        ("We separate, we can estimate", "w iy _ s eh p er ey t , w iy _ k ae n _ eh s t ax m ey t ."),
        ("to record", "t ax _ r ax k ao r d ."),
    ],
)
def test_verbs_and_nouns_have_their_own_pronunciations(text: str, phones: str) -> None:
    assert LEXICON.phones(text) == phones


def test_every_listed_word_has_a_vowel() -> None:
    assert {word: phones for word, phones in LEXICON._words.items() if VOWELS.isdisjoint(phones.split())} == {}


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=14))
def test_any_letters_give_known_phones(word: str) -> None:
    assert set(LEXICON.word(word).split()) <= set(PHONES)


def test_roman_numerals_have_values() -> None:
    assert [roman(numeral) for numeral in ("I", "IV", "IX", "XIV", "XIX", "XL", "LXXXIX")] == [1, 4, 9, 14, 19, 40, 89]


@given(st.integers(0, 10**15 - 1))
def test_cardinals_use_lexicon_words(number: int) -> None:
    assert all(word in LEXICON for word in cardinal(number).split())
    assert words(str(number) if number > 9999 else f"{number:,}")


def test_very_long_numbers_are_read() -> None:
    assert words("9" * 5000 + ".5") == "nine " * 5000 + "point five"
    assert words("$" + "9" * 5000).endswith("nine dollars")
    for text in ("{}h 3m", "1h {}m", "5m {}s", "{}m ago", "{}k users", "May 1-{}", "1:30:{}", "{}.1.1.1", "3/{}=5"):
        assert words(text.format("9" * 5000)).count("nine") >= 4990


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(b"{]", mtime=0), gzip.compress(b"[]", mtime=0)])
def test_damaged_lexicon_is_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lexicon.json.gz"
    path.write_bytes(content)
    with pytest.raises(InvalidConfig, match="lexicon"):
        Lexicon.load(path)


def test_lexicon_that_exists_is_not_read_again(tmp_path: Path) -> None:
    def lexicon(word: str) -> Lexicon:
        path = tmp_path / "lexicon.json.gz"
        path.write_bytes(
            gzip.compress(json.dumps({"version": 1, "words": {word: "ih t"}, "letters": {}}).encode(), mtime=0)
        )
        return Lexicon.load(path)

    first = lexicon("it")
    assert lexicon("it") is first
    assert "its" in lexicon("its")


def test_lexicon_of_unknown_version_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "lexicon.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"version": 99}).encode()))
    with pytest.raises(InvalidConfig, match="version"):
        Lexicon.load(path)
